import type { EngineDigest } from '../../contract/pool-digest.ts'
import type { PrefillCostModel } from '../../latency/prefill-cost-model.ts'
import { SILENT_MISS_CAUSES } from './cache-feedback.ts'
import type { EngineEstimators } from './engine-estimators.ts'

interface EstimatorFacts {
  readonly costModel: PrefillCostModel
  readonly activeBlocks: number
  readonly cachedBlocks: number
  readonly now: number
}

export function estimatorDigest(
  estimators: EngineEstimators,
  { costModel, activeBlocks, cachedBlocks, now }: EstimatorFacts,
): Partial<EngineDigest> {
  const report = estimators.cacheFeedback.report
  const { feed } = estimators
  const feedState = feed?.stateAt(now) ?? null
  const stepLimitMs = estimators.stepLimit.limitMs(now)
  estimators.queue.settle(now)
  return {
    activeBlocks,
    // The index counts blocks of running requests too, and the scale of fractional blocks is an estimate.
    cachedBlocks: Math.min(cachedBlocks, estimators.capacity.declared ?? Infinity),
    queuedPrefillS: estimators.queue.seconds(now),
    queuedPrefillTokens: estimators.queue.newTokens,
    queuedPrefillWork: estimators.queue.work,
    ...(feed === null || feedState === null
      ? {}
      : { kvFeed: { state: feedState, changes: feed.changes, resyncs: feed.resyncs, lagMs: feed.lagMs } }),
    ...(estimators.capacity.declared === null ? {} : { cacheBlocks: estimators.capacity.declared }),
    learned: {
      costModel,
      samples: estimators.prefillFitter.samples,
      confidence: estimators.prefillFitter.confidence,
      cacheBlocks:
        estimators.capacity.learned === null
          ? null
          : Math.round(estimators.capacity.scale * estimators.capacity.learned),
      ttftError: estimators.ttftError,
      ...(stepLimitMs === Infinity ? {} : { stepLimitMs }),
      ...(estimators.places.limit === Infinity ? {} : { places: estimators.places.limit }),
      predictedCachedTokens: report.predictedTokens,
      actualCachedTokens: report.actualTokens,
      cachedTokensError: report.errorTokens,
      restarts: report.restarts,
      silentMiss: report.silentMiss ? SILENT_MISS_CAUSES : null,
      warmth: estimators.warmth(now),
    },
  }
}
