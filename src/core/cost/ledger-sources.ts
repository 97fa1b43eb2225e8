import type { DecodeCostModel } from '../latency/decode-cost-model.ts'
import { queueSeconds } from '../latency/prefill-cost-model.ts'
import type { PoolLedger } from '../pool/ledger.ts'
import type { Booking } from '../pool/bookings.ts'
import type { EngineState } from '../pool/pool-engines/engine-state.ts'
import type { ChargedPrefill } from './engine-time.ts'

/** What costs read of the ledger. */
export interface CostSources {
  /** Prefill of a booking on one of its engines. */
  prefill(booking: Booking, engine: EngineState): Omit<ChargedPrefill, 'streams'>
  /** KV blocks that a step of the booking reads. */
  decodeBlocks(booking: Booking): number
  decodePace(engine: EngineState, now: number): DecodeCostModel
  /** Prefill that cached tokens saved, seconds. `reported`: the engine's count; null: none. */
  savedS(booking: Booking, reported: number | null, now: number): number
}

/** Reads what costs are computed from in the ledger of a pool. */
export function ledgerSources(ledger: PoolLedger): CostSources {
  return {
    prefill({ entry, admission }, engine) {
      const queued = entry.legs.find((leg) => leg.engine === engine && leg.queued !== null)?.queued
      return { newTokens: queued?.newTokens ?? admission.promptTokens, seconds: queued?.seconds ?? 0 }
    },
    decodeBlocks: ({ admission: { promptTokens, expectedOutputTokens } }) =>
      (promptTokens + (expectedOutputTokens ?? 0) / 2) / Math.max(1, ledger.sources.blockTokens),
    decodePace: (engine, now) => engine.estimators.decodeCostModel(ledger.sources.blockTokens, now),
    savedS({ entry, admission: { promptTokens } }, reported, now) {
      const leg = entry.legs.find(({ queued }) => queued !== null)
      if (leg === undefined) return 0
      // The engine that decodes a split request reports the transferred tokens as cached.
      const cachedTokens = leg.legRole === 'whole' && reported !== null ? reported : leg.estimate.cached.total
      const costModel = leg.estimators.costModel(now)
      return (
        queueSeconds(costModel, { promptTokens, cachedTokens: 0 }) -
        queueSeconds(costModel, { promptTokens, cachedTokens })
      )
    },
  }
}
