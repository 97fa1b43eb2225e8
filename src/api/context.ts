import type { Config } from '../config.ts'
import type { KeyUsage } from '../core/limits/key-usage.ts'
import type { FleetHistory } from '../core/reports/fleet-history.ts'
import type { DigestCache } from '../origin/digest-cache.ts'
import type { Exchange, PoolRoute } from '../origin/exchange.ts'
import type { CacheLookups } from '../origin/lmcache/cache-lookups.ts'
import type { WaitingRequests } from '../origin/waiting-requests.ts'
import type { Ports } from '../ports.ts'
import type { AssetFiles } from '../ports/assets.ts'
import type { Limiter } from '../ports/limiter.ts'
import type { StoredResponses } from '../ports/stored-responses.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import type { Authenticator } from './auth/authenticator.ts'
import type { BodyMemory } from '../body-memory.ts'
import type { EdgePrompts } from './edge-prompts.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { PromptAnalyzers } from './prompt-analyzers.ts'
import type { RepeatedRequests } from './repeated-requests.ts'
import type { RequestHistory } from './request-history.ts'
import type { WorkerGroup } from '../worker-group.ts'

/** State shared by the handlers. One per gateway. */
export interface GatewayContext {
  readonly config: Config
  readonly ports: Ports
  readonly models: ModelRegistry
  readonly authenticator: Authenticator
  readonly storedResponses: StoredResponses
  readonly recent: RequestHistory
  /** null: this gateway is the only one of its process. */
  readonly shared: WorkerGroup | null
  /** Digests of clusters. */
  readonly digests: Pick<DigestCache, 'order' | 'regionDigests' | 'regionStatus'>
  /** Fingerprint of how a pool divides prompts into blocks: equal numbers mean equal blocks. null: not at all. */
  readonly fingerprintOf: (route: PoolRoute) => number | null
  readonly analyzers: PromptAnalyzers
  readonly edgePrompts: EdgePrompts
  readonly bodyMemory: BodyMemory
  /** Limits per key. */
  readonly limiter: Limiter
  /** Requests and tokens per key. */
  readonly usage: KeyUsage
  readonly lookups: CacheLookups
  /** Requests that wait for room. */
  readonly waits: WaitingRequests
  /** Clients that repeat refused requests at once. */
  readonly repeated: RepeatedRequests
  readonly forward: (exchange: Exchange) => Promise<Response>
  /** Start of this gateway, ms since the epoch. */
  readonly startedAt: number
  /** Files of the dashboard. */
  readonly assets: AssetFiles
  readonly telemetry: Telemetry
  /** History of the pools, for views. */
  readonly history: FleetHistory
  /** When a newer configuration was refused, ms since the epoch; null: this one is the newest. */
  configRefusedAt: number | null
  draining: boolean
  /** A newer gateway has replaced this one. Running requests continue. */
  retired: boolean
}
