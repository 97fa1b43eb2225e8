import type { CandidateSet } from '../../routing/candidate-set.ts'
import type { EngineState } from '../pool-engines/engine-state.ts'
import type { EngineSignals } from '../signals/engine-signals.ts'
import { prefillSeconds } from '../../latency/prefill-cost-model.ts'
import type { SignalReader } from '../signals/signal-reader.ts'

/** Signals that may be missing for an engine. */
const MAY_BE_MISSING = ['lookupTokens'] as const

/** Candidate set for the router: fills the signals that a policy needs. */
export function candidateSet(engines: readonly EngineState[], reading: SignalReader): CandidateSet {
  const rows: EngineSignals[] = []
  for (const { signals, spec } of engines) {
    signals.weight = spec.weight
    rows.push(signals)
  }
  return {
    engines: rows,
    candidates(needs) {
      reading.write(needs)
      if (!MAY_BE_MISSING.some((signal) => needs.includes(signal))) return rows
      return rows.filter((signals) =>
        MAY_BE_MISSING.every((signal) => !needs.includes(signal) || !Number.isNaN(signals[signal])),
      )
    },
  }
}

/** Candidates for a decode leg: an uncached token costs its transfer, as a share of the time to compute it. */
export function receivingCandidateSet(engines: readonly EngineState[], reading: SignalReader): CandidateSet {
  const field = candidateSet(engines, reading)
  const { promptTokens } = reading.admission
  const shares = new Map(engines.map((engine) => [engine.spec.id, transferShare(reading, engine)]))
  return {
    engines: field.engines,
    candidates: (needs) =>
      field.candidates(needs).map((row) => {
        const uncached = promptTokens - row.cachedTokens
        // It prefills nothing, so no step delays its first token.
        return { ...row, delayS: 0, laterS: 0, cachedTokens: promptTokens - uncached * (shares.get(row.id) ?? 1) }
      }),
  }
}

/** Time to receive the prompt's KV, as a share of the time to compute it, 0..1. */
function transferShare({ admission: { promptTokens }, now }: SignalReader, { estimators }: EngineState): number {
  const computeMs = 1000 * prefillSeconds(estimators.costModel(now), { promptTokens, cachedTokens: 0 })
  return computeMs > 0 ? Math.min(1, estimators.kvTransfer.expectedMs(promptTokens) / computeMs) : 1
}
