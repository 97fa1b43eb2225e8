import { tokenSeconds } from '../latency/decode.ts'
import { newTokens, attentionPairs, type PrefillCostModel } from '../latency/cost-model.ts'
import type { Admission, Outcome, StageTimes, EngineDigest } from '../contract/contract.ts'
import type { PrefixIndex } from '../prefix-index/prefix-index.ts'
import type { LegEntry, LedgerEntry } from './ledger-entry.ts'
import { tokensOfBlock } from './signal-reader.ts'
import { SILENT_MISS_CAUSES } from './cache-feedback.ts'
import type { EngineEstimators } from './engine-estimators.ts'

export const LEARNED_VERSION = 1

/** What is worth keeping of an engine over an eviction of the object. Small, structured-cloneable. */
export interface LearnedEngine {
  readonly costModel: PrefillCostModel | null
  readonly decodeLogPace: number
  readonly capacityBlocks: number | null
}

export function learnedOf(book: EngineEstimators): LearnedEngine {
  const { learner, decode, capacity } = book
  return {
    costModel: learner.hasLearned ? learner.costModel : null,
    decodeLogPace: decode.logPace,
    capacityBlocks: capacity.learned,
  }
}

/** The learned law comes back as a prior: the next answers confirm or replace it. */
export function relearn(book: EngineEstimators, learned: LearnedEngine): void {
  if (learned.costModel !== null) book.learner.restore(learned.costModel)
  book.decode.restore(learned.decodeLogPace)
  if (learned.capacityBlocks !== null) book.capacity.restore(learned.capacityBlocks)
}

/** A snapshot is read with suspicion: another version may have written it. null: not ours. */
export function readLearned(data: unknown): ReadonlyMap<string, LearnedEngine> | null {
  if (typeof data !== 'object' || data === null || !('version' in data) || data.version !== LEARNED_VERSION) return null
  if (!('engines' in data) || typeof data.engines !== 'object' || data.engines === null) return null
  const found = new Map<string, LearnedEngine>()
  for (const [id, value] of Object.entries(data.engines as Record<string, Partial<LearnedEngine> | null>)) {
    if (value === null || typeof value !== 'object') continue
    const { costModel = null, decodeLogPace = 0, capacityBlocks = null } = value
    if (
      costModel !== null &&
      ![costModel.fixedS, costModel.perTokenS, costModel.perPairS].every((part) => Number.isFinite(part) && part >= 0)
    )
      continue
    if (!Number.isFinite(decodeLogPace) || (capacityBlocks !== null && !(capacityBlocks >= 1))) continue
    found.set(id, { costModel, decodeLogPace, capacityBlocks })
  }
  return found
}

export interface EngineFacts {
  readonly costModel: PrefillCostModel
  readonly activeBlocks: number
  readonly cachedBlocks: number
  readonly now: number
}

export function engineDigestOf(
  book: EngineEstimators,
  { costModel, activeBlocks, cachedBlocks, now }: EngineFacts,
): Partial<EngineDigest> {
  const report = book.feedback.report
  const feed = book.feed.stateAt(now)
  book.queue.settle(now)
  return {
    activeBlocks,
    cachedBlocks,
    queuedPrefillS: book.queue.seconds(now),
    queuedPrefillTokens: book.queue.newTokens,
    ...(feed === null
      ? {}
      : { kvFeed: { state: feed, changes: book.feed.changes, resyncs: book.feed.resyncs, lagMs: book.feed.lagMs } }),
    ...(book.capacity.declared === null ? {} : { cacheBlocks: book.capacity.declared }),
    learned: {
      costModel,
      samples: book.learner.samples,
      confidence: book.learner.confidence,
      cacheBlocks: book.capacity.learned === null ? null : Math.round(book.capacity.scale * book.capacity.learned),
      ttftError: book.ttftError,
      predictedCachedTokens: report.predictedTokens,
      actualCachedTokens: report.actualTokens,
      cachedTokensError: report.errorTokens,
      restarts: report.restarts,
      silentMiss: report.silentMiss ? SILENT_MISS_CAUSES : null,
      warmth: book.warmth(now),
    },
  }
}

/** So short that most of the time to the answer was its prefill. */
const SHORT_ANSWER_TOKENS = 16

export interface LearningContext {
  readonly now: number
  readonly index: PrefixIndex
  readonly blockTokens: number
}

/** Compares the TTFT that was predicted with the one that came; nothing without either. */
export function judgeForecast({ isResumed, estimate, estimators }: LegEntry, { ttft }: StageTimes): void {
  if (!isResumed && estimate.ttftMs !== null && ttft !== undefined) estimators.judgeTtft(estimate.ttftMs, ttft)
}

/** A prefill's first token, or the end of a leg that does nothing else. */
export function prefillEnded(leg: LegEntry, stages: StageTimes, now: number): void {
  if (leg.queued === null) return
  // It ended some time before it was booked again, which says nothing of those that wait.
  if (leg.isResumed && leg.queued.bookedAt === now) return leg.estimators.queue.abandon(leg.queued, now)
  judgeForecast(leg, stages)
  leg.busyPeriod = leg.estimators.queue.firstToken(leg.queued, now)
  leg.prefillMs = stages.prefill ?? null
  // Without its own end, a prefill leg's first token is the answer's, which came later.
  leg.firstTokenInexact = leg.part === 'prefill' && stages.prefill_leg === undefined
}

/** An answer that is no stream shows no first token; a short one ended soon after it. */
export function endUnstreamed(
  request: LedgerEntry,
  { result, usage }: Outcome,
  { now, blockTokens }: LearningContext,
): void {
  if (result !== 'complete' || usage === null) return
  const tokens = usage.completionTokens / (request.sequences ?? 1)
  if (tokens > SHORT_ANSWER_TOKENS) return
  for (const leg of request.legs) {
    const { queued, part, estimators } = leg
    if (queued === null || part !== 'whole') continue
    const decodeS =
      Math.max(0, tokens - 1) * tokenSeconds(estimators.decodeCostModel(blockTokens, now), estimators.requests, 0)
    leg.busyPeriod = estimators.queue.firstToken(queued, now - decodeS * 1000)
  }
}

/** What an ended request teaches about the engines it was on. */
export function learn(request: LedgerEntry, admission: Admission, outcome: Outcome, context: LearningContext): void {
  const { now, index } = context
  for (const leg of request.legs) {
    if (leg.isResumed) {
      leg.busyPeriod?.record(null, leg.engine.spec.rttMs / 1000)
      continue
    }
    const actual = learnCache(leg, outcome, {
      now,
      index,
      judges: !admission.computesAll,
      blockTokens: tokensOfBlock(admission, context.blockTokens),
      promptBlocks: admission.blocks.length >> 1,
    })
    learnPace(leg, admission, { outcome, actual, now })
    learnDecode(leg, request, outcome, context)
  }
}

interface CacheContext extends LearningContext {
  readonly promptBlocks: number
  /** Does what was cached tell of what is kept? */
  readonly judges: boolean
}

/** Returns the tokens that were cached; null when the engine did not say. */
function learnCache(
  leg: LegEntry,
  outcome: Outcome,
  { now, index, blockTokens, promptBlocks, judges }: CacheContext,
): number | null {
  // A split's answer comes from its decode engine, which reports what it was sent, not what it had: the prefill leg's own
  // answer tells.
  const usage = leg.part === 'whole' && outcome.result === 'complete' ? outcome.usage : leg.usage
  if (usage === null) return null
  const { estimators, estimate } = leg
  const said = estimators.feedback.actualOf(usage.cachedTokens)
  const actualTokens = said === null ? null : Math.min(said, usage.promptTokens)
  if (actualTokens === null || !judges || !estimators.caches(leg.engine.spec)) return actualTokens
  const inIndex = estimate.indexBlocks * blockTokens
  const predictedTokens = Math.max(estimate.cached.total, estimators.wholeBlocks(inIndex))
  const uncertainTokens = Math.min(predictedTokens, estimate.uncertainTokens)
  const engine = estimators.number
  if (uncertainTokens === 0)
    estimators.feedback.found(
      actualTokens,
      estimators.wholeBlocks(Math.min(inIndex, usage.promptTokens - 1)),
      estimators.engineBlockTokens,
    )
  const verdict = estimators.feedback.judge({
    predictedTokens,
    actualTokens,
    uncertainTokens,
    blockTokens: Math.max(blockTokens, estimators.engineBlockTokens),
    idleEnds: (estimate.stamp - estimate.usedStamp) | 0,
    beforeAway: estimators.wasAwayAfter(estimate.usedStamp),
  })
  // Its events tell of restarts and evictions themselves.
  if (estimators.feed.isExact(now)) return actualTokens
  if (verdict.kind === 'restarted') {
    if (verdict.away) index.sweep(engine, estimators.revivedStamp)
    else index.flush(engine)
    estimators.capacity.forget()
    estimators.restarted(now)
  } else if (verdict.kind === 'outlived')
    estimators.capacity.limit(index.usedSince(engine, estimate.usedStamp) - promptBlocks, index.cachedBlocks(engine))
  else if (verdict.kind === 'evicted') estimators.capacity.shrink(verdict.prompts, index.cachedBlocks(engine))
  else if (predictedTokens > 0) estimators.capacity.confirm(index.cachedBlocks(engine))
  index.setCapacity(engine, estimators.capacity.blocks)
  return actualTokens
}

interface Facts {
  readonly outcome: Outcome
  readonly actual: number | null
  readonly now: number
}

function learnPace(leg: LegEntry, admission: Admission, { outcome, actual, now }: Facts): void {
  if (leg.queued === null) return
  const { cached, adapterFit } = leg.estimate
  const length = {
    promptTokens: outcome.usage?.promptTokens ?? admission.promptTokens,
    cachedTokens: actual ?? cached.total,
  }
  const size = { newTokens: newTokens(length), pairs: attentionPairs(length) }
  // Time spent fetching from slower tiers or loading an adapter is not the law's.
  const usual = adapterFit === 1 && cached.host + cached.disk + cached.remote === 0
  const reportedMs = outcome.stages.prefill ?? leg.prefillMs
  if (usual && reportedMs !== null)
    leg.estimators.learner.learn({ newTokens: size.newTokens, pairs: size.pairs, seconds: reportedMs / 1000, at: now })
  leg.busyPeriod?.record(
    usual && reportedMs === null && !leg.firstTokenInexact ? size : null,
    leg.engine.spec.rttMs / 1000,
  )
}

function learnDecode(
  leg: LegEntry,
  request: LedgerEntry,
  outcome: Outcome,
  { now, blockTokens }: LearningContext,
): void {
  if (leg.queued !== null && leg.part !== 'whole') return
  if (outcome.result !== 'complete' || outcome.usage === null || request.firstTokenAt === null) return
  const seconds = (now - request.firstTokenAt) / 1000
  for (const learner of [leg.estimators.decode, leg.estimators.kind.decode]) {
    const expectedTokenS = tokenSeconds(learner.costModel(blockTokens), request.running, 0)
    learner.learn(seconds, outcome.usage.completionTokens / (request.sequences ?? 1) - 1, { expectedTokenS, now })
  }
}
