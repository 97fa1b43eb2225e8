import type { ClusterDigest, EngineDigest } from '../contract/contract.ts'
import { unavailability } from './eligible.ts'
import type { EngineState } from './engine-state.ts'
import type { PoolAccounts } from './fleet.ts'

/** Returns one engine's entry of the digest. */
export function engineDigest(engine: EngineState, { load, ledger }: PoolAccounts, now: number): EngineDigest {
  const { spec, stats } = engine
  const kept = { ...load.digest(engine), ...ledger.digest(engine, now) }
  return {
    activeBlocks: 0,
    queuedPrefillS: 0,
    cachedBlocks: 0,
    cacheBlocks: spec.cacheBlocks ?? stats?.value.cacheBlocks ?? null,
    ...kept,
    id: spec.id,
    role: spec.role,
    weight: spec.weight,
    available: unavailability(engine, kept.requests, now) === null,
    healthy: engine.healthy,
    draining: engine.isLeaving,
    asleep: engine.asleep,
    circuit: engine.circuit.state,
    ttftMs: engine.ttftMs,
    hitRate: engine.hitRate,
    requestsTotal: engine.requestsTotal,
    failuresTotal: engine.failuresTotal,
    ejectionsWithheld: engine.ejectionsWithheld,
    countedBefore: engine.countedBefore,
    stats: stats === null ? null : { ...stats.value, ageMs: Math.max(0, now - stats.at) },
  }
}

/** Returns the digest of an object without configuration. */
export function emptyDigest(facts: Pick<ClusterDigest, 'version' | 'epoch' | 'seq' | 'at'>): ClusterDigest {
  return { ...facts, cluster: '', pool: '', configVersion: 0, bookings: 0, engines: [] }
}
