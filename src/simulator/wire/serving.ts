import type { Clock } from '../clock.ts'
import type { Driver } from '../driver.ts'
import type { KvPeer } from '../kv-peer.ts'
import type { EngineLimits } from '../profiles.ts'
import type { ServingMetrics } from './serving-metrics.ts'

/** What the endpoints need of the engine they belong to. */
export interface Serving {
  readonly driver: Driver
  readonly clock: Clock
  readonly limits: EngineLimits
  /** Name of the base model; adapters and aliases are in `served`. */
  readonly model: string
  readonly served: readonly string[]
  /** `systemFingerprint` of every answer. */
  readonly fingerprint: string
  readonly perRequestMetrics: boolean
  readonly maxNumQueuedReqs: number | null
  readonly maxNumQueuedTokens: number | null
  readonly metrics: ServingMetrics
  /** Prefill/decode hand-over; null: no connector, `kv_transfer_params` is ignored. */
  readonly kv: KvPeer | null
  /** Has this encoder output been made by an encode engine or here? Remembers it if not. */
  encoded(item: number): boolean
  newId(): string
  /** The process dies. */
  crash(): void
}
