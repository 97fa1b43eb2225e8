import type { Law } from '../latency/law.ts'
import { SILENT_MISS_CAUSES } from './cache-feedback.ts'
import type { EngineDigest } from './contract.ts'
import type { EngineBook } from './engine-book.ts'

export const LEARNED_VERSION = 1

/** What is worth keeping of an engine over an eviction of the object. Small, structured-cloneable. */
export interface LearnedEngine {
  readonly law: Law | null
  readonly decodeLogPace: number
  readonly capacityBlocks: number | null
}

export function learnedOf(book: EngineBook): LearnedEngine {
  const { learner, decode, capacity } = book
  return { law: learner.hasLearned ? learner.law : null, decodeLogPace: decode.logPace, capacityBlocks: capacity.learned }
}

/** The learned law comes back as a prior: the next answers confirm or replace it. */
export function relearn(book: EngineBook, learned: LearnedEngine): void {
  if (learned.law !== null) book.learner.restore(learned.law)
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
    const { law = null, decodeLogPace = 0, capacityBlocks = null } = value
    if (law !== null && ![law.fixedS, law.perTokenS, law.perPairS].every((part) => Number.isFinite(part) && part >= 0)) continue
    if (!Number.isFinite(decodeLogPace) || (capacityBlocks !== null && !(capacityBlocks >= 1))) continue
    found.set(id, { law, decodeLogPace, capacityBlocks })
  }
  return found
}

export interface EngineFacts {
  readonly law: Law
  readonly activeBlocks: number
  readonly cachedBlocks: number
  readonly now: number
}

export function engineDigestOf(book: EngineBook, { law, activeBlocks, cachedBlocks, now }: EngineFacts): Partial<EngineDigest> {
  const report = book.feedback.report
  const feed = book.feed.stateAt(now)
  book.queue.settle(now)
  return {
    activeBlocks,
    cachedBlocks,
    queuedPrefillS: book.queue.seconds(now),
    queuedPrefillTokens: book.queue.newTokens,
    ...(feed === null ? {} : { kvFeed: { state: feed, changes: book.feed.changes, resyncs: book.feed.resyncs, lagMs: book.feed.lagMs } }),
    ...(book.capacity.declared === null ? {} : { cacheBlocks: book.capacity.declared }),
    learned: {
      law,
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
