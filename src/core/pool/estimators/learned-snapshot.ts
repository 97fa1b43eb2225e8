import type { PrefillCostModel } from '../../latency/prefill-cost-model.ts'
import type { EngineEstimators } from './engine-estimators.ts'

export const LEARNED_VERSION = 1

/** Learned values of an engine that survive an eviction. Small and structured-cloneable. */
interface LearnedEngine {
  readonly costModel: PrefillCostModel | null
  readonly decodeLogPace: number
  /** null in older snapshots. */
  readonly stepLogPace: number | null
  readonly capacityBlocks: number | null
}

export function learnedOf(estimators: EngineEstimators): LearnedEngine {
  const { prefillFitter, decodeFitter, stepFitter, capacity } = estimators
  return {
    costModel: prefillFitter.hasLearned ? prefillFitter.costModel : null,
    decodeLogPace: decodeFitter.logPace,
    stepLogPace: stepFitter.logPace,
    capacityBlocks: capacity.learned,
  }
}

/** Restores learned values as a prior, which new samples confirm or replace. */
export function relearn(estimators: EngineEstimators, learned: LearnedEngine): void {
  if (learned.costModel !== null) estimators.prefillFitter.restore(learned.costModel)
  estimators.decodeFitter.restore(learned.decodeLogPace)
  if (learned.stepLogPace !== null) estimators.stepFitter.restore(learned.stepLogPace)
  if (learned.capacityBlocks !== null) estimators.capacity.restore(learned.capacityBlocks)
}

/** Validates a snapshot, which may be of another version. null: unusable. */
export function readLearned(data: unknown): ReadonlyMap<string, LearnedEngine> | null {
  if (typeof data !== 'object' || data === null || !('version' in data) || data.version !== LEARNED_VERSION) return null
  if (!('engines' in data) || typeof data.engines !== 'object' || data.engines === null) return null
  const found = new Map<string, LearnedEngine>()
  for (const [id, value] of Object.entries(data.engines as Record<string, Partial<LearnedEngine> | null>)) {
    if (value === null || typeof value !== 'object') continue
    const { costModel = null, decodeLogPace = 0, stepLogPace = null, capacityBlocks = null } = value
    if (
      costModel !== null &&
      ![costModel.fixedS, costModel.perTokenS, costModel.perPairS].every((part) => Number.isFinite(part) && part >= 0)
    )
      continue
    if (
      ![decodeLogPace, stepLogPace ?? 0].every(Number.isFinite) ||
      (capacityBlocks !== null && !(capacityBlocks >= 1))
    )
      continue
    found.set(id, { costModel, decodeLogPace, stepLogPace, capacityBlocks })
  }
  return found
}
