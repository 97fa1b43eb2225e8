/** Ports of the gateway, from the bindings of a Worker. */
import type { ClusterObject } from '../../../durable/cluster-object.ts'
import type { EdgeObject } from '../../../durable/edge-object.ts'
import type { LimitObject } from '../../../durable/limit-object.ts'
import type { TtftObject } from '../../../durable/ttft-object.ts'
import { MEASURED_PROMPT_BYTES } from '../../api/prompt/measured-prompt.ts'
import { FallbackLimiter } from '../fallback-limiter.ts'
import type { Config } from '../../config.ts'
import { toStoreLimits } from '../../config/normalize.ts'
import { toPoolConfig } from '../../config/to-pool-config.ts'
import type { IssuedKeys } from '../../core/keys/issued-key.ts'
import type { LimitedRequest } from '../../core/limits/key-limits.ts'
import type { LimitShare } from '../../core/limits/limit-share.ts'
import type { RuntimePorts } from '../../ports.ts'
import type { IssuedKeyStore } from '../../ports/issued-keys.ts'
import type { Limiter } from '../../ports/limiter.ts'
import type { Log } from '../../ports/log.ts'
import type { Ttft } from '../../ports/ttft.ts'
import { defaultTimers } from '../../timers.ts'
import { ConfiguredAlerts } from '../configured-alerts.ts'
import { fetchJson } from '../fetch-json.ts'
import { durablePools, type PoolPlace } from './durable-pools.ts'
import { durableTtft } from './durable-ttft.ts'
import type { EdgeAccess } from './edge-access.ts'
import { EDGE_OBJECT } from './edge-views.ts'
import { workersOrigin } from './origin.ts'
import { withDeadline } from '../../timeout.ts'
import { post } from '../post.ts'

export interface PortsEnv {
  readonly CLUSTER: DurableObjectNamespace<ClusterObject>
  /** Absent on deployments from before TTFT reports. */
  readonly TTFT?: DurableObjectNamespace<TtftObject>
  /** Absent on deployments older than the limits per key. */
  readonly LIMIT?: DurableObjectNamespace<LimitObject>
  /** Absent on deployments older than the state that isolates share. */
  readonly EDGE?: DurableObjectNamespace<EdgeObject>
}

/** Returns ports for the whole isolate; nothing in them belongs to one request. */
export function workersPorts(config: Config, env: PortsEnv, log: Log, edge: EdgeAccess | null = null): RuntimePorts {
  const places = placesOf(config)
  const source = (clusterId: string, pool: string) => places.get(nameOf(clusterId, pool)) ?? null
  const common = { log, timers: defaultTimers, now: () => Date.now(), services: { post, fetchJson } }
  return {
    ...common,
    pool: durablePools(env.CLUSTER, { source, edge }),
    origin: workersOrigin({ bindings: { ...env } }),
    random: () => Math.random(),
    newId: () => crypto.randomUUID(),
    maxMeasuredPromptBytes: MEASURED_PROMPT_BYTES.binding,
    alerts: new ConfiguredAlerts(config, common),
    shared: hasLimits(config) ? { limiter: limiterOf(config, env, log) } : undefined,
    ttft: config.ttft.enabled ? ttftOf(config, env, log) : undefined,
    issuedKeys: config.issuedKeys === null ? undefined : issuedKeysOf(env, log),
    // Workers limit the CPU time of requests, so no work is long enough to be interrupted.
    yieldToEventLoop: undefined,
    parseLong: undefined,
  }
}

const hasLimits = ({ keyLimits, keys, jwt, issuedKeys, teams }: Config): boolean =>
  keyLimits !== null ||
  issuedKeys !== null ||
  [...(keys ?? []), ...teams, ...(jwt === null ? [] : [jwt])].some(
    ({ limits, budgets }) => limits !== null || budgets !== null,
  )

/** Longest wait of a request for the object that counts the limits of its key, ms. */
const LIMIT_MS = 2_000

/** An isolate that has ended holds places of `concurrent` for this long, ms. */
const RESERVED_MS = 30_000

/** The number of isolates is unknown, so the share of each is the whole limit. */
const ALONE: LimitShare = { count: 1, index: 0 }

/** One object per key. Without the binding each isolate counts alone. */
function limiterOf({ keyLimitsFallback }: Config, { LIMIT }: PortsEnv, log: Log): Limiter | undefined {
  if (LIMIT === undefined) {
    log.error('key_limits_unbound', { missing: 'LIMIT', see: 'the durable object LimitObject in wrangler.toml' })
    return undefined
  }
  // A stub that failed stays unusable, so each call gets a new one.
  const open = (key: string) => LIMIT.getByName(`limit:${key}`)
  const carrier: Limiter = {
    reserve: async (request) => open(request.key).reserve(leased(request)),
    charge: async (charge) => open(charge.key).charge(charge),
    settle: async (settlement) => open(settlement.key).settle(settlement),
    renewal: { everyMs: RESERVED_MS / 3, renew: async (running) => open(running.key).renew(running) },
  }
  const parts = { now: () => Date.now(), log, limitMs: LIMIT_MS, fallback: () => keyLimitsFallback, share: () => ALONE }
  return new FallbackLimiter(carrier, parts)
}

/** Only a place of `concurrent` matters before the end. */
const leased = (request: LimitedRequest): LimitedRequest =>
  request.limits.concurrent === null ? request : { ...request, leaseMs: RESERVED_MS }

function ttftOf(config: Config, { TTFT }: PortsEnv, log: Log): Ttft | undefined {
  if (TTFT !== undefined) return durableTtft(TTFT, toStoreLimits(config.ttft))
  log.error('ttft_unbound', { missing: 'TTFT', see: 'the durable object TtftObject in wrangler.toml' })
  return undefined
}

/** Longest wait for the object that has the issued keys, ms. */
const KEYS_MS = 2_000

function issuedKeysOf({ EDGE }: PortsEnv, log: Log): IssuedKeyStore | undefined {
  if (EDGE === undefined) {
    log.error('issued_keys_unbound', { missing: 'EDGE', see: 'the durable object EdgeObject in wrangler.toml' })
    return undefined
  }
  // A stub that failed stays unusable, so each call gets a new one.
  const open = () => EDGE.getByName(EDGE_OBJECT)
  return {
    read: (known) => withDeadline(KEYS_MS, open().readIssuedKeys(known) as Promise<IssuedKeys | null>),
    add: (key) => withDeadline(KEYS_MS, open().addIssuedKey(key) as Promise<boolean>),
    remove: (name) => withDeadline(KEYS_MS, open().removeIssuedKey(name) as Promise<boolean>),
  }
}

function placesOf(config: Config): ReadonlyMap<string, PoolPlace> {
  const places = new Map<string, PoolPlace>()
  for (const cluster of config.clusters) {
    const { generation, locationHint, jurisdiction } = cluster
    for (const pool of cluster.pools) {
      places.set(nameOf(cluster.id, pool.model), {
        version: config.version,
        pool: toPoolConfig(cluster, pool),
        shards: pool.shards,
        isRegional: cluster.gateway !== null,
        generation,
        locationHint,
        jurisdiction,
      })
    }
  }
  return places
}

const nameOf = (clusterId: string, pool: string): string => JSON.stringify([clusterId, pool])
