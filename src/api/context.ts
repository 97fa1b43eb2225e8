import type { Config } from '../config.ts'
import type { DigestCache } from '../origin/digest-cache.ts'
import type { Exchange, PoolRoute } from '../origin/exchange.ts'
import type { CacheLookups } from '../origin/lmcache/lookups.ts'
import type { AssetFiles, StoredResponses, Ports } from '../ports.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import { Failure } from '../failure.ts'
import type { BodyMemory } from './body-memory.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { WorkerGroup } from './worker-group.ts'
import type { Authenticator } from './auth.ts'
import type { RequestHistory } from './request-log.ts'
import type { PromptMeasurers } from './prompt-measurers.ts'

/** What the handlers share. One per gateway. */
export interface GatewayContext {
  readonly config: Config
  readonly ports: Ports
  readonly catalog: ModelRegistry
  readonly authenticator: Authenticator
  readonly held: StoredResponses
  readonly recent: RequestHistory
  /** null: this gateway is the only one of its process. */
  readonly shared: WorkerGroup | null
  /** What is known of clusters without asking them. */
  readonly digests: Pick<DigestCache, 'order' | 'regionDigests' | 'regionStatus'>
  /** How a pool's prompts are cut into blocks: the same number where they are cut alike. null: not at all. */
  readonly fingerprintOf: (route: PoolRoute) => number | null
  readonly measurers: PromptMeasurers
  readonly bodyMemory: BodyMemory
  readonly lookups: CacheLookups
  readonly forward: (exchange: Exchange) => Promise<Response>
  /** When this gateway was made, ms since the epoch. */
  readonly startedAt: number
  /** What the dashboard is made of. */
  readonly assets: AssetFiles
  readonly telemetry: Telemetry
  draining: boolean
  /** Another door has taken its place: what was let in here goes on. */
  retired: boolean
}

const DRAIN_RETRY_MS = 1000

/** New work is refused while the gateway drains; what runs goes on. */
export function assertAccepting(context: GatewayContext): void {
  if (!context.draining) return
  throw new Failure('draining', 'This gateway is shutting down. Send the request again: another one will take it.', {
    retryAfterMs: DRAIN_RETRY_MS,
  })
}
