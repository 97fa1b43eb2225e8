import type { Job } from './job.ts'

/** Values of a metrics scrape of the engine. */
export interface EngineGauges {
  readonly running: number
  readonly waiting: number
  /** Share of referenced KV cache, 0 to 1. */
  readonly kvUsage: number
}

/** Callbacks at an engine's time. */
export interface JobListener {
  firstToken(job: Job, at: number): void
  /** Another full block of output was generated. */
  progress(job: Job, outputBlocks: number, at: number): void
  ended(job: Job, at: number): void
}

/**
 * An engine in a replay. It also has exact values that only a simulator has; routers that use them are references, not
 * deployable policies.
 */
export interface ReplayEngine {
  submit(job: Job, now: number): void
  nextEventAt(): number
  advance(now: number): void
  gauges(): EngineGauges
  /** Capacity of its cache in blocks of the trace. */
  readonly cacheBlocks: number
  /** Prompt tokens computed, without cached ones. */
  readonly computedTokens: number
  /** Leading tokens of the prompt that are cached now, or will be when the earlier requests are done. */
  exactCachedTokens(job: Job): number
  /** Time to first token if the job arrived now and nothing after it. */
  exactTtftMs(job: Job, now: number): number
  /** Time to first token if nothing of the prompt were cached. */
  exactColdTtftMs(job: Job, now: number): number
}
