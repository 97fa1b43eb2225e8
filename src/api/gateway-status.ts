/** State of one gateway that changes while it runs. */
export interface GatewayStatus {
  /** When a newer configuration was refused, ms since the epoch; null: this one is the newest. */
  configRefusedAt: number | null
  draining: boolean
  /** A newer gateway has replaced this one. Running requests continue. */
  retired: boolean
}
