import type { Job } from './trace.ts'

/** What a scrape of the engine's metrics would say. */
export interface EngineGauges {
  readonly running: number
  readonly waiting: number
  /** Share of the KV cache that is held, 0 to 1. */
  readonly kvUsage: number
}

/** Told what happens on an engine, at the engine's time. */
export interface JobListener {
  firstToken(job: Job, at: number): void
  /** Another whole block of output. */
  progress(job: Job, outputBlocks: number, at: number): void
  ended(job: Job, at: number): void
}

/**
 * An engine in a replay. Beyond serving, it answers what only a simulator can know: those who use these answers are
 * the marks to aim at, not policies anyone could run.
 */
export interface ReplayEngine {
  submit(job: Job, now: number): void
  nextEventAt(): number
  advance(now: number): void
  gauges(): EngineGauges
  /** Blocks (of the trace's size) its cache holds. */
  readonly cacheBlocks: number
  /** Prompt tokens it computed, cached ones left out. */
  readonly computedTokens: number
  /** Leading tokens of the prompt that are in its cache now, or will be when the requests before it are done. */
  exactCachedTokens(job: Job): number
  /** Time to first token if the job came now and nothing after it. */
  exactTtftMs(job: Job, now: number): number
  /** The same for an engine that has nothing of the prompt cached. */
  exactColdTtftMs(job: Job, now: number): number
}
