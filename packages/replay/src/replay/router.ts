import type { EngineSpec, PoolConfig } from '../../../../src/core/contract/pool-config.ts'
import type { ReplayEngine } from './replay-engine.ts'
import type { LmcacheStore } from './lmcache-store.ts'
import type { Job } from './job.ts'

/** Destination of a job. `prefill` is set if another engine computes the prompt first. */
export interface Route {
  readonly engine: number
  readonly prefill?: number
  readonly predictedTtftMs?: number | null
}

/**
 * A router in a replay: the gateway's state machine, another router's rule, or an oracle. It receives what a gateway
 * would observe.
 */
export interface ReplayRouter {
  readonly name: string
  /** null: refused. */
  route(job: Job, now: number): Route | null
  /** Lets a refused job wait for room; `done` is called once, at once or later. false: it may not wait. */
  wait?(job: Job, now: number, done: (route: Route | null) => void): boolean
  /** Places waiting jobs that have room now. Called every `WAKE_MS` while jobs wait. */
  wake?(now: number): void
  firstToken(job: Job, now: number): void
  progress?(job: Job, outputBlocks: number, now: number): void
  ended(job: Job, now: number): void
  /** Scrape interval of all engines in milliseconds, if wanted. */
  readonly scrapeMs?: number
  scrape?(now: number): void
}

export interface RouterContext {
  readonly engines: readonly ReplayEngine[]
  readonly blockTokens: number
  readonly random: () => number
  readonly rttMs: number
  /** Configuration of each engine. */
  readonly specs?: readonly Partial<EngineSpec>[]
  readonly split?: PoolConfig['split']
  /** LMCache's directory; null or absent: none. */
  readonly lmcache?: LmcacheStore | null
}

/** A router by its command line name. */
export interface RouterKind {
  readonly name: string
  /** One line for people. */
  readonly doc: string
  readonly source: string
  create(context: RouterContext): ReplayRouter
}
