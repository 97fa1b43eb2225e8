import type { EngineSpec, PoolConfig } from '../../core/contract/contract.ts'
import type { ReplayEngine } from './engines.ts'
import type { LmcacheStore } from './lmcache-store.ts'
import type { Job } from './trace.ts'

/** Where a job goes. `prefill` is set when another engine is to compute the prompt first. */
export interface Route {
  readonly engine: number
  readonly prefill?: number
  readonly predictedTtftMs?: number | null
}

/**
 * What chooses engines in a replay: a real gateway's books, another router's rule, or one who knows everything.
 * It is told what a gateway would see.
 */
export interface ReplayRouter {
  readonly name: string
  /** null: refused. */
  route(job: Job, now: number): Route | null
  firstToken(job: Job, now: number): void
  progress?(job: Job, outputBlocks: number, now: number): void
  ended(job: Job, now: number): void
  /** A scrape of all engines, for those who want one every so many milliseconds. */
  readonly scrapeMs?: number
  scrape?(now: number): void
}

export interface RouterContext {
  readonly engines: readonly ReplayEngine[]
  readonly blockTokens: number
  readonly random: () => number
  readonly rttMs: number
  /** What a gateway is told of each engine. */
  readonly specs?: readonly Partial<EngineSpec>[]
  readonly split?: PoolConfig['split']
  /** LMCache's directory; null or absent: there is none. */
  readonly lmcache?: LmcacheStore | null
}

/** A router that a name on the command line stands for. */
export interface RouterKind {
  readonly name: string
  /** One line for people. */
  readonly doc: string
  readonly source: string
  create(context: RouterContext): ReplayRouter
}
