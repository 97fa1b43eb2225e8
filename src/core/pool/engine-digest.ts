import { type EngineDigest, maxReportedAdapters } from '../contract/pool-digest.ts'
import { unavailability } from './decision/eligibility.ts'
import type { EngineState } from './pool-engines/engine-state.ts'
import type { BookedLoad } from './pool-engines/booked-load.ts'

/** Returns one engine's entry of the digest. */
export function engineDigest(engine: EngineState, { load, ledger }: BookedLoad, now: number): EngineDigest {
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
    available: unavailability(engine, kept.requests, now) === null && !engine.isTooSlow,
    healthy: engine.healthy,
    ...detailsOf(engine),
    condition: engine.condition.condition,
    ...(engine.condition.since === 0 ? {} : { conditionSince: engine.condition.since }),
    ...(engine.changes.list.length === 0 ? {} : { changes: engine.changes.list }),
    abandonedTotal: engine.abandoned.total,
    rescuedTotal: engine.rescuedTotal,
    draining: engine.isLeaving,
    ...(engine.moveAt === undefined ? {} : { moveAt: engine.moveAt }),
    asleep: engine.asleep,
    ...(engine.paused === null ? {} : { paused: engine.paused }),
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

const detailsOf = ({
  spec,
  problem,
  lastFailure,
  version,
  contextTokens,
  compared,
  residents,
  offersAdapters,
  loadedAdapters,
}: EngineState): Partial<EngineDigest> => ({
  ...(spec.server === undefined ? {} : { server: spec.server }),
  ...(spec.ignoresRanks === true ? { ignoresRanks: true } : {}),
  ...(problem === undefined ? {} : { problem }),
  ...(compared === undefined ? {} : { compared }),
  ...(residents?.shownBy !== spec.id ? {} : { residents: { loaded: residents.loaded, ...residents.counts } }),
  ...(offersAdapters && loadedAdapters !== null
    ? { loadedAdapters: loadedAdapters.slice(0, maxReportedAdapters) }
    : {}),
  ...(lastFailure === undefined ? {} : { lastFailure }),
  ...(version === undefined ? {} : { engineVersion: version }),
  ...(contextTokens === null ? {} : { contextTokens }),
})
