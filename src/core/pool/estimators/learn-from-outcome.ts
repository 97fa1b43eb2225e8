import type { Outcome } from '../../contract/outcome.ts'
import type { StageTimes } from '../../contract/stages.ts'
import { attentionPairs, newTokens } from '../../latency/prefill-cost-model.ts'
import type { PrefixIndex } from '../../prefix-index/prefix-index.ts'
import { tokensPerBlock } from '../block-tokens.ts'
import type { LedgerEntry, LegEntry } from '../ledger-entry.ts'
import { presentItlS, type ItlSources } from './present-itl.ts'

/** Output tokens up to which a non-streaming response time is mostly prefill. */
const SHORT_ANSWER_TOKENS = 16

interface LearningContext {
  readonly now: number
  readonly index: PrefixIndex
  readonly blockTokens: number
}

/** Compares the predicted TTFT with the measured one; no effect if either is missing. */
export function judgePrediction(leg: LegEntry, stages: StageTimes): void {
  const { isResumed, legRole, estimate, estimators, firstTokenInexact } = leg
  const { ttft, gateway_queue: heldMs = 0 } = stages
  if (isResumed || estimate.ttftMs === null || ttft === undefined) return
  // The prediction was made at the end of the wait for room.
  estimators.judgeTtft(estimate.ttftMs, ttft - heldMs)
  const { prediction, behindOthers } = estimate
  if (legRole !== 'whole' || prediction === null || firstTokenInexact) return
  const measuredS = (ttft - heldMs) / 1000
  const { workS, inStepsS, baseS, firstTokenS } = prediction
  if (!behindOthers) return
  estimators.stepDelay.learn(baseS, measuredS)
  estimators.spread.learn(firstTokenS, measuredS)
  estimators.predictionChoice.learn(workS, inStepsS, measuredS)
}

/** Records the end of a prefill: its first token, or the end of a prefill leg. */
export function prefillEnded(leg: LegEntry, stages: StageTimes, now: number): void {
  if (leg.queued === null) return
  // It ended before it was booked again, which is no evidence about the queue.
  if (leg.isResumed && leg.queued.bookedAt === now) return leg.estimators.queue.abandon(leg.queued, now)
  judgePrediction(leg, stages)
  if (!leg.isResumed) {
    measurePrefill(leg, stages, now)
    learnEarly(leg, stages, now)
  }
  leg.busyPeriod = leg.estimators.queue.firstToken(leg.queued, now)
  leg.prefillMs = stages.prefill ?? null
  // Without an end of its own, the prefill leg's time is the response's first token, which is later.
  leg.firstTokenInexact ||= leg.legRole === 'prefill' && stages.prefill_leg === undefined
}

/** What is later than predicted is time of its own prefill, if no other one was before it. */
function measurePrefill(
  { legRole, estimate, estimators, firstTokenInexact, queued }: LegEntry,
  stages: StageTimes,
  at: number,
): void {
  const { ttft, gateway_queue: heldMs = 0 } = stages
  const { prediction, behindOthers, cached } = estimate
  if (legRole !== 'whole' || firstTokenInexact || behindOthers || !isUsual(estimate)) return
  if (ttft === undefined || prediction === null || queued === null) return
  const laterS = (ttft - heldMs) / 1000 - prediction.firstTokenS
  if (!estimators.late.isNews(laterS)) return
  const promptTokens = queued.newTokens + cached.total
  const size = { newTokens: promptTokens, pairs: attentionPairs({ promptTokens, cachedTokens: 0 }) }
  estimators.measuredPrefill({ size, seconds: prediction.ownS + laterS, at })
}

/** Teaches a new engine's speed at once: a response may end much later than its first token comes. */
function learnEarly(leg: LegEntry, { prefill }: StageTimes, at: number): void {
  const { legRole, estimate, estimators, firstTokenInexact, queued, engine } = leg
  if (legRole !== 'whole' || queued === null || firstTokenInexact || estimate.behindOthers || !isUsual(estimate)) return
  if (!estimators.queue.isAlone(queued)) return
  const seconds = prefill === undefined ? (at - queued.bookedAt - engine.spec.rttMs) / 1000 : prefill / 1000
  estimators.learnEarly({ size: { newTokens: queued.newTokens, pairs: queued.work }, seconds, at })
}

/** Time to load from slower tiers or to load an adapter is not part of the cost model. */
const isUsual = ({ cached, adapterFit }: LegEntry['estimate']): boolean =>
  adapterFit === 1 && cached.host + cached.disk + cached.remote === 0

/** Estimates the prefill end of a short response that does not stream. */
export function endUnstreamed(
  request: LedgerEntry,
  { result, usage }: Outcome,
  sources: ItlSources,
  now: number,
): void {
  if (result !== 'complete' || usage === null) return
  const tokens = usage.completionTokens / (request.admission.sequences ?? 1)
  if (tokens > SHORT_ANSWER_TOKENS) return
  for (const leg of request.legs) {
    const { queued, legRole, estimators } = leg
    if (queued === null || legRole !== 'whole') continue
    const decodeS = Math.max(0, tokens - 1) * presentItlS(estimators, sources, now)
    leg.busyPeriod = estimators.queue.firstToken(queued, now - decodeS * 1000)
  }
}

/** Minimum decode steps of a response that measure the time between tokens. */
const MIN_STEPS = 8

/** Minimum share of a response's time that is decode, because the prefill work during it is an estimate. */
const MIN_DECODE_SHARE = 0.1

/** Updates the estimators of its engines from a completed request. */
export function learn(request: LedgerEntry, outcome: Outcome, context: LearningContext): void {
  const { admission } = request
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
      blockTokens: tokensPerBlock(admission, context.blockTokens),
      promptBlocks: admission.blocks.length >> 1,
    })
    learnPace(leg, admission.promptTokens, { outcome, actual, now })
    learnDecode(leg, request, outcome, context)
  }
}

interface CacheContext extends LearningContext {
  readonly promptBlocks: number
  /** Whether the cached tokens are evidence about the engine's cache. */
  readonly judges: boolean
}

/** Returns the cached tokens; null: not reported. */
function learnCache(
  leg: LegEntry,
  outcome: Outcome,
  { now, index, blockTokens, promptBlocks, judges }: CacheContext,
): number | null {
  // A split request's response is from the decode engine, which reports the transferred tokens. The prefill leg's
  // response is the evidence.
  const usage = leg.legRole === 'whole' && outcome.result === 'complete' ? outcome.usage : leg.usage
  if (usage === null) return null
  const { estimators, estimate } = leg
  const reportedTokens = estimators.cacheFeedback.actualOf(usage.cachedTokens)
  const actualTokens = reportedTokens === null ? null : Math.min(reportedTokens, usage.promptTokens)
  if (actualTokens === null || !judges || !estimators.caches(leg.engine.spec)) return actualTokens
  const inIndex = estimate.indexBlocks * blockTokens
  const predictedTokens = Math.max(estimate.cached.total, estimators.wholeBlocks(inIndex))
  const uncertainTokens = Math.min(predictedTokens, estimate.uncertainTokens)
  const engine = estimators.number
  if (uncertainTokens === 0)
    estimators.cacheFeedback.found(
      actualTokens,
      estimators.wholeBlocks(Math.min(inIndex, usage.promptTokens - 1)),
      estimators.engineBlockTokens,
    )
  const finding = estimators.cacheFeedback.judge({
    predictedTokens,
    actualTokens,
    uncertainTokens,
    blockTokens: Math.max(blockTokens, estimators.engineBlockTokens),
    idleEnds: (estimate.stamp - estimate.usedStamp) | 0,
    beforeAway: estimators.wasAwayAfter(estimate.usedStamp),
  })
  // KV events report restarts and evictions directly.
  if (estimators.feed?.isExact(now)) return actualTokens
  if (finding.kind === 'restarted') {
    if (finding.away) index.sweep(engine, estimators.revivedStamp)
    else index.flush(engine)
    estimators.capacity.forget()
    estimators.restarted(now)
  } else if (finding.kind === 'outlived')
    estimators.capacity.limit(index.usedSince(engine, estimate.usedStamp) - promptBlocks, index.cachedBlocks(engine))
  else if (finding.kind === 'evicted') estimators.capacity.shrink(finding.prompts, index.cachedBlocks(engine))
  else if (predictedTokens > 0) estimators.capacity.confirm(index.cachedBlocks(engine))
  index.setCapacity(engine, estimators.capacity.blocks)
  return actualTokens
}

interface PaceInput {
  readonly outcome: Outcome
  readonly actual: number | null
  readonly now: number
}

function learnPace(leg: LegEntry, promptTokens: number, { outcome, actual, now }: PaceInput): void {
  if (leg.queued === null) return
  const { cached } = leg.estimate
  const length = {
    promptTokens: outcome.usage?.promptTokens ?? promptTokens,
    cachedTokens: actual ?? cached.total,
  }
  const size = { newTokens: newTokens(length), pairs: attentionPairs(length) }
  const usual = isUsual(leg.estimate)
  const reportedMs = outcome.stages.prefill ?? leg.prefillMs
  if (usual && reportedMs !== null)
    leg.estimators.prefillFitter.learn({
      newTokens: size.newTokens,
      pairs: size.pairs,
      seconds: reportedMs / 1000,
      at: now,
    })
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
  if (leg.queued !== null && leg.legRole !== 'whole') return
  if (outcome.result !== 'complete' || outcome.usage === null || request.firstTokenAt === null) return
  const seconds = (now - request.firstTokenAt) / 1000
  const tokens = outcome.usage.completionTokens / (request.admission.sequences ?? 1) - 1
  if (tokens >= MIN_STEPS) leg.estimators.stepLimit.learn((1000 * seconds) / tokens, now)
  const { decodeFitter, stepFitter, hardwareClass } = leg.estimators
  const delayedS = Math.max(0, leg.estimators.prefilledS(now) - request.prefilledS)
  const stepsS = Math.max(MIN_DECODE_SHARE * seconds, seconds - delayedS)
  const load = { running: request.running, blocks: request.blocks, blockTokens, now }
  decodeFitter.learn(seconds, tokens, load)
  hardwareClass.decodeFitter.learn(seconds, tokens, load)
  stepFitter.learn(stepsS, tokens, load)
  hardwareClass.stepFitter.learn(stepsS, tokens, load)
}

/**
 * Learns the time between tokens before a response ends, because a burst may be over by then. Only blocks between two
 * reports are known to be full: the prompt may have filled part of the first.
 */
export function learnStep(
  leg: LegEntry,
  { reported, admission: { sequences = 1 } }: LedgerEntry,
  { outputBlocks, blockTokens, now }: { outputBlocks: number; blockTokens: number; now: number },
): void {
  if (reported === null) return
  const tokens = ((outputBlocks - reported.outputBlocks) * blockTokens) / sequences
  if (tokens > 0) leg.estimators.stepLimit.learn((now - reported.at) / tokens, now)
}
