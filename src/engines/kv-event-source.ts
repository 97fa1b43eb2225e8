/** A socket with the KV events of one rank. */
export interface KvEventSource {
  /** Global rank. */
  readonly rank: string
  readonly enabled: boolean
  readonly endpoint: string
  readonly replayEndpoint: string | null
  readonly topic: string | null
}
