import type { EngineCounters } from './engine-counters.ts'
import type { KvCache } from './kv-cache.ts'
import type { EngineLimits } from './profiles.ts'
import type { Sequence } from './sequence.ts'
import { WaitingQueue } from './waiting-queue.ts'

/** Selects what a step computes: vLLM V1's Scheduler, first come, first served. It only records time. */
export class Scheduler {
  readonly waiting = new WaitingQueue()
  /**
   * Sequences whose blocks have arrived from another engine. They precede all others: they hold blocks that others may
   * wait for, and behind a prompt that does not fit they would wait forever.
   */
  readonly ready = new WaitingQueue()
  running: Sequence[] = []
  /** Sequences of the step in progress, each with its `chunk`. */
  scheduled: Sequence[] = []
  readonly #limits: EngineLimits
  readonly #cache: KvCache
  readonly #counters: EngineCounters
  /** Called for a scheduled sequence. Returns true if it first fetches blocks from elsewhere. */
  readonly #fetch: (sequence: Sequence, now: number) => boolean

  constructor(
    limits: EngineLimits,
    cache: KvCache,
    counters: EngineCounters,
    fetch: (sequence: Sequence, now: number) => boolean,
  ) {
    this.#limits = limits
    this.#cache = cache
    this.#counters = counters
    this.#fetch = fetch
  }

  /** Fills `scheduled`. Returns true if a sequence was preempted, so another attempt may find more room. */
  plan(now: number): boolean {
    const before = this.#counters.preemptions
    const budget = this.#planRunning(this.#limits.maxNumBatchedTokens)
    // Waiting sequences would take the blocks that the preempted sequence needs.
    if (this.#counters.preemptions !== before) return true
    this.#planWaiting(budget, now)
    return false
  }

  #planRunning(limit: number): number {
    let budget = limit
    const { running } = this
    for (let at = 0; at < running.length && budget > 0; at += 1) {
      const sequence = running[at]!
      const chunk = Math.min(sequence.tokens - sequence.computed, budget)
      let fits = this.#cache.grow(sequence, sequence.computed + chunk)
      while (!fits) {
        const youngest = running.pop()!
        this.#preempt(youngest)
        if (youngest === sequence) break
        fits = this.#cache.grow(sequence, sequence.computed + chunk)
      }
      if (!fits) break
      budget -= chunk
      this.#schedule(sequence, chunk)
    }
    return budget
  }

  #planWaiting(limit: number, now: number): void {
    let budget = limit
    while (budget > 0 && this.running.length < this.#limits.maxNumSeqs) {
      const ready = this.ready.peek()
      const sequence = ready ?? this.waiting.peek()
      if (sequence === undefined || (ready === undefined && !this.#open(sequence))) return
      if (ready === undefined) this.waiting.shift()
      else this.ready.shift()
      if (!sequence.transferred && this.#fetch(sequence, now)) continue
      const chunk = Math.min(sequence.tokens - sequence.computed, budget)
      this.#cache.grow(sequence, sequence.computed + chunk)
      sequence.state = 'running'
      if (sequence.scheduledAt < 0) sequence.scheduledAt = now
      this.running.push(sequence)
      budget -= chunk
      this.#schedule(sequence, chunk)
    }
  }

  /** Finds cached blocks. Returns false if there is no room yet. */
  #open(sequence: Sequence): boolean {
    if (!this.#cache.open(sequence)) return false
    if (sequence.cachedTokens < 0) {
      sequence.cachedTokens = sequence.computed
      this.#counters.promptTokens += sequence.spec.promptTokens
      this.#counters.cachedTokens += sequence.computed
    }
    return true
  }

  #schedule(sequence: Sequence, chunk: number): void {
    sequence.chunk = chunk
    this.scheduled.push(sequence)
    if (chunk > 1) this.#counters.encodedItems += sequence.encodeItemsDue
    this.#cache.name(sequence, sequence.computed + chunk)
  }

  #preempt(sequence: Sequence): void {
    this.#cache.close(sequence)
    sequence.computed = 0
    sequence.state = 'waiting'
    sequence.preemptions += 1
    this.#counters.preemptions += 1
    this.waiting.pushFront(sequence)
  }
}
