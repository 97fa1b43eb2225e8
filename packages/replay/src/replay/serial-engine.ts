import { keyAt } from '../../../simulator/src/block-keys.ts'
import { EventQueue } from './event-queue.ts'
import type { Job } from './job.ts'
import type { EngineGauges, JobListener, ReplayEngine } from './replay-engine.ts'

export interface SerialOptions {
  readonly blockTokens: number
  /** Capacity of the prefix cache in blocks, LRU. */
  readonly cacheBlocks: number
  readonly prefillBlockMs: number
  readonly decodeTokenMs: number
}

/**
 * The simplest engine with a cache: one prompt after the other, a fixed time per uncached block, free decoding.
 * Published gateway comparisons use it, so the simulator can be checked against measured figures. Every started block
 * counts and is cached, as there.
 */
export class SerialEngine implements ReplayEngine {
  readonly cacheBlocks: number
  computedTokens = 0
  readonly #options: SerialOptions
  readonly #listener: JobListener
  readonly #events = new EventQueue()
  /** In LRU order: the first is evicted next. */
  readonly #cached = new Set<number>()
  #freeAt = 0
  #running = 0
  #waiting = 0

  constructor(options: SerialOptions, listener: JobListener) {
    this.#options = options
    this.#listener = listener
    this.cacheBlocks = options.cacheBlocks
  }

  submit(job: Job, now: number): void {
    const { blockTokens, prefillBlockMs, decodeTokenMs } = this.#options
    const hits = this.#hits(job)
    const promptBlocks = blocksOf(job, blockTokens)
    job.cachedTokens = Math.min(job.promptTokens, hits * blockTokens)
    this.computedTokens += job.promptTokens - job.cachedTokens
    this.#touch(job, promptBlocks)
    this.#freeAt = Math.max(now, this.#freeAt) + (promptBlocks - hits) * prefillBlockMs
    this.#waiting += 1
    this.#events.add(this.#freeAt, (at) => {
      this.#waiting -= 1
      this.#running += 1
      this.#listener.firstToken(job, at)
      for (let blocks = 1; blocks * blockTokens < job.outputTokens; blocks += 1) {
        this.#events.add(at + blocks * blockTokens * decodeTokenMs, (when) =>
          this.#listener.progress(job, blocks, when),
        )
      }
      this.#events.add(at + (job.outputTokens - 1) * decodeTokenMs, (when) => {
        this.#running -= 1
        this.#listener.ended(job, when)
      })
    })
  }

  nextEventAt(): number {
    return this.#events.nextAt()
  }

  advance(now: number): void {
    this.#events.run(now)
  }

  gauges(): EngineGauges {
    return { running: this.#running + Math.min(1, this.#waiting), waiting: Math.max(0, this.#waiting - 1), kvUsage: 0 }
  }

  exactCachedTokens(job: Job): number {
    return Math.min(job.promptTokens, this.#hits(job) * this.#options.blockTokens)
  }

  exactTtftMs(job: Job, now: number): number {
    return this.exactColdTtftMs(job, now) - this.#hits(job) * this.#options.prefillBlockMs
  }

  exactColdTtftMs(job: Job, now: number): number {
    return Math.max(0, this.#freeAt - now) + blocksOf(job, this.#options.blockTokens) * this.#options.prefillBlockMs
  }

  #hits(job: Job): number {
    let hits = 0
    const count = job.blocks.length >> 1
    while (hits < count && this.#cached.has(keyAt(job.blocks, hits))) hits += 1
    return hits
  }

  #touch(job: Job, blocks: number): void {
    // The partial last block of the prompt takes room but is never found again.
    for (let at = job.blocks.length >> 1; at < blocks; at += 1) this.#use(-1 - job.index * 4 - (at & 3))
    // Tail first, so that a prefix is evicted after its continuations.
    for (let at = (job.blocks.length >> 1) - 1; at >= 0; at -= 1) this.#use(keyAt(job.blocks, at))
    for (const key of this.#cached) {
      if (this.#cached.size <= this.cacheBlocks) break
      this.#cached.delete(key)
    }
  }

  #use(key: number): void {
    this.#cached.delete(key)
    this.#cached.add(key)
  }
}

function blocksOf(job: Job, blockTokens: number): number {
  return Math.ceil(job.promptTokens / blockTokens)
}
