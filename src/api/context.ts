import type { Config } from '../config.ts'
import type { DigestCache } from '../origin/digest-cache.ts'
import type { Exchange, PoolRoute } from '../origin/exchange.ts'
import type { WaitingRequests } from '../origin/waiting-requests.ts'
import type { CacheLookups } from '../origin/lmcache/cache-lookups.ts'
import type { AssetFiles } from '../ports/assets.ts'
import type { Limiter } from '../ports/limiter.ts'
import type { StoredResponses } from '../ports/stored-responses.ts'
import type { Ports } from '../ports.ts'
import type { FleetHistory } from '../core/reports/fleet-history.ts'
import type { KeyUsage } from '../core/limits/key-usage.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import { drainFailure, Failure } from '../failure.ts'
import type { BodyMemory } from './body-memory.ts'
import type { ModelRegistry } from './model-registry.ts'
import type { WorkerGroup } from './worker-group.ts'
import type { Authenticator } from './auth/authenticator.ts'
import type { RepeatedRequests } from './repeated-requests.ts'
import type { RequestHistory } from './request-history.ts'
import type { EdgePrompts } from './edge-prompts.ts'
import type { PromptAnalyzers } from './prompt-analyzers.ts'

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

/** Rejects new requests while the gateway drains. Running ones continue. */
export function assertAccepting(context: GatewayContext): void {
  if (context.draining) throw drainFailure(context.ports.random())
}

/** Starts the drain. Waiting requests are answered at once. */
export function drain(context: GatewayContext): void {
  context.draining = true
  context.waits.end(() => drainFailure(context.ports.random()), true)
}

const keyIdentity = (key: unknown): string => JSON.stringify(key)

/**
 * Another gateway takes new requests. Waiting requests whose key it lacks are answered.
 * @param isNow as in `WaitingRequests.end`
 */
export function supersede(context: GatewayContext, next: Pick<Config, 'keys'>, isNow: boolean): void {
  context.retired = true
  const { config, waits } = context
  const kept = new Set((next.keys ?? []).map(({ name, secret }) => keyIdentity([name, secret])))
  const removed = new Set(
    (config.keys ?? []).flatMap(({ name, secret }) => (kept.has(keyIdentity([name, secret])) ? [] : name)),
  )
  if (removed.size > 0) waits.end((tenant) => (removed.has(tenant) ? keyRemoved() : null), isNow)
}

const keyRemoved = (): Failure =>
  new Failure('key_wrong', 'This API key was removed while the request waited.', {
    headers: { 'www-authenticate': 'Bearer' },
  })
