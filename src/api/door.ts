import type { Config } from '../config.ts'
import type { DigestCache } from '../origin/digests.ts'
import type { Exchange, PoolRoute } from '../origin/exchange.ts'
import type { CacheLookups } from '../origin/lmcache/lookups.ts'
import type { AssetFiles, Holdings, Ports } from '../ports.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import { Failure } from '../failure.ts'
import type { BodyMemory } from './body-memory.ts'
import type { Catalog } from './catalog.ts'
import type { Shared } from './fellows.ts'
import type { Doorkeeper } from './keys.ts'
import type { RecentRequests } from './recent.ts'
import type { Meters } from './prompt.ts'

/** What the handlers share. One per gateway. */
export interface Door {
  readonly config: Config
  readonly ports: Ports
  readonly catalog: Catalog
  readonly keeper: Doorkeeper
  readonly held: Holdings
  readonly recent: RecentRequests
  /** null: this gateway is the only one of its process. */
  readonly shared: Shared | null
  /** What is known of clusters without asking them. */
  readonly digests: Pick<DigestCache, 'order' | 'outlooks' | 'seen'>
  /** How a pool's prompts are cut into blocks: the same number where they are cut alike. null: not at all. */
  readonly cutOf: (route: PoolRoute) => number | null
  readonly meters: Meters
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
export function refuseDraining(door: Door): void {
  if (!door.draining) return
  throw new Failure('draining', 'This gateway is shutting down. Send the request again: another one will take it.', { retryAfterMs: DRAIN_RETRY_MS })
}
