import { BlockPool } from './block-pool.ts'
import { type CacheChange, CacheJournal } from './cache-journal.ts'
import { DueList } from './due-list.ts'
import { type EngineCounters, newCounters } from './engine-counters.ts'
import { KvCache } from './kv-cache.ts'
import type { EngineLimits } from './profiles.ts'
import { Scheduler } from './scheduler.ts'
import { Sequence, type SequenceSpec } from './sequence.ts'
import { batchMs, type StepCostModel } from './step-cost.ts'

/** Source of the leading tokens of a prompt, and the transfer time in ms. */
export interface FetchSource {
  readonly tokens: number
  readonly ms: number
}

export interface EngineModelOptions {
  readonly limits: EngineLimits
  readonly costModel: StepCostModel
  /** false: the prefix cache is off. */
  readonly prefixCaching?: boolean
  /** How long blocks are held for another engine to read. vLLM's `kv_lease_duration`, 30 s. */
  readonly holdLeaseMs?: number
  /**
   * Called when a sequence is scheduled. Returns what an external cache has beyond the tokens cached here; null:
   * nothing.
   */
  readonly fetchSource?: (spec: SequenceSpec, cachedTokens: number) => FetchSource | null
}

/** Callbacks at the model's time. They may call back into the model. */
interface EngineListener {
  /** A token was generated; `sequence.outputs` is the count. Omit to save the cost. */
  readonly token?: (sequence: Sequence, at: number) => void
  /** A step begins that computes this many tokens. Omit to save the cost. */
  readonly step?: (tokens: number, at: number) => void
  /** Changes of the prefix cache since the last step ended. Omit to disable the journal. */
  readonly cached?: (changes: readonly CacheChange[], at: number) => void
  /** Called exactly once for each submitted sequence. */
  readonly ended?: (sequence: Sequence, at: number) => void
}

/**
 * One engine as vLLM V1 schedules it: running sequences first, then waiting ones in order of arrival, from one token
 * budget per step; chunked prefill; a prefix cache; preemption of the youngest sequence when blocks run out. Pure:
 * time is an argument in milliseconds and never decreases. The host calls `submit` and `abort` for requests, and
 * `advance` at `nextEventAt()` or later; a late call only delays the callbacks.
 */
export class EngineModel {
  readonly limits: EngineLimits
  readonly costModel: StepCostModel
  readonly pool: BlockPool
  readonly counters: EngineCounters = newCounters()
  /** Factor on the time of every step and transfer that starts from now on. */
  slowdown = 1

  readonly #holdLeaseMs: number
  readonly #listener: EngineListener
  readonly #journal: CacheJournal | null
  readonly #cache: KvCache
  readonly #scheduler: Scheduler
  readonly #fetchSource: EngineModelOptions['fetchSource']
  readonly #transfers = new DueList()
  readonly #held = new DueList()
  #now = 0
  #stepEndsAt = Infinity
  /** Time of the next check whether a step can start. */
  #wakeAt = Infinity
  #paused = false
  #frozen = false
  #advancing = false

  constructor(options: EngineModelOptions, listener: EngineListener = {}) {
    this.limits = options.limits
    this.costModel = options.costModel
    this.#journal = listener.cached === undefined ? null : new CacheJournal()
    this.pool = new BlockPool(options.limits.cacheBlocks, this.#journal)
    this.#holdLeaseMs = options.holdLeaseMs ?? 30_000
    this.#listener = listener
    this.#fetchSource = options.fetchSource
    this.#cache = new KvCache(this.pool, options.limits.blockTokens, options.prefixCaching ?? true, this.#journal)
    this.#scheduler = new Scheduler(options.limits, this.#cache, this.counters, (sequence, now) =>
      this.#fetch(sequence, now),
    )
  }

  get running(): number {
    return this.#scheduler.running.length
  }

  /** Number of sequences waiting for scheduling or for blocks from another engine. */
  get waiting(): number {
    return this.#scheduler.waiting.length + this.#scheduler.ready.length + this.#transfers.length
  }

  get transferring(): number {
    return this.#transfers.length
  }

  /** Number of finished sequences whose blocks another engine will read. */
  get held(): number {
    return this.#held.length
  }

  get paused(): boolean {
    return this.#paused
  }

  /** Share of referenced blocks, 0 to 1. */
  get usage(): number {
    return (this.pool.size - this.pool.freeCount) / this.pool.size
  }

  /** Iterates over unfinished sequences. */
  *live(): Generator<Sequence> {
    yield* this.#scheduler.running
    yield* this.#transfers
    yield* this.#scheduler.ready
    yield* this.#scheduler.waiting
  }

  /** Prompt tokens of requests without a first token, as vLLM's admission limit counts them. */
  queuedPromptTokens(): number {
    let tokens = 0
    for (const sequence of this.live()) if (sequence.outputs === 0) tokens += sequence.spec.promptTokens
    return tokens
  }

  /**
   * Queues a sequence. The next `advance` considers it, so that sequences submitted at the same time share a step.
   * Throws a RangeError if it could never fit.
   */
  submit(spec: SequenceSpec, now: number): Sequence {
    // Earlier events must not see it.
    this.#run((at) => at < now)
    const sequence = new Sequence(spec, now, this.limits.blockTokens)
    if (sequence.table.length > this.pool.size) {
      throw new RangeError(
        `a sequence of ${spec.promptTokens + spec.outputTokens} tokens needs ${sequence.table.length} blocks, ` +
          `the cache has ${this.pool.size}`,
      )
    }
    this.counters.submitted += 1
    this.#scheduler.waiting.push(sequence)
    this.#wake(now)
    return sequence
  }

  /** Ends a sequence early and frees its blocks. No effect on a finished sequence. */
  abort(sequence: Sequence, now: number): void {
    if (sequence.ended) return
    const scheduler = this.#scheduler
    if (sequence.state === 'waiting') scheduler.waiting.forgetOne()
    if (sequence.state === 'ready') scheduler.ready.forgetOne()
    if (sequence.state === 'transfer') this.#transfers.remove(sequence)
    if (sequence.state === 'running') scheduler.running = scheduler.running.filter((other) => other !== sequence)
    this.counters.aborted += 1
    this.#end(sequence, 'aborted', now)
    this.#wake(now)
  }

  abortAll(now: number): void {
    for (const sequence of Array.from(this.live())) this.abort(sequence, now)
  }

  /** Starts no new step until `resume`. The step in progress ends. */
  pause(): void {
    this.#paused = true
  }

  resume(now: number): void {
    this.#paused = false
    this.#wake(now)
  }

  /** Stops everything, the step in progress included. The time until it continues is lost. */
  freeze(isFrozen: boolean, now: number): void {
    if (this.#frozen && !isFrozen) {
      this.#now = Math.max(this.#now, now)
      if (this.#stepEndsAt !== Infinity) this.#stepEndsAt = Math.max(this.#stepEndsAt, now)
    }
    this.#frozen = isFrozen
  }

  /** Discards all cached content. Returns false while any block is referenced, as vLLM does. */
  resetCache(): boolean {
    if (this.pool.freeCount !== this.pool.size) return false
    this.pool.clear()
    return true
  }

  /**
   * Releases the blocks of a `hold` sequence after they were read. Returns false if they were released or read before.
   */
  readByRemote(sequence: Sequence, now: number): boolean {
    if (!sequence.holding) return false
    this.#held.remove(sequence)
    this.#letGo(sequence, now)
    return true
  }

  /** Time of the next event; Infinity: none. */
  nextEventAt(): number {
    if (this.#frozen) return Infinity
    const at = Math.min(this.#stepEndsAt, this.#held.nextAt())
    if (this.#stepEndsAt !== Infinity || this.#paused) return at
    return Math.min(at, this.#wakeAt, this.#transfers.nextAt())
  }

  /** Advances the engine to `now`: ends due steps and starts new ones. */
  advance(now: number): void {
    this.#run((at) => at <= now && at < Infinity)
    this.#now = Math.max(this.#now, now)
  }

  /** Processes due events one by one. */
  #run(due: (at: number) => boolean): void {
    // A listener that submits re-enters here. The outer loop handles its sequence in the next iteration.
    if (this.#advancing) return
    this.#advancing = true
    for (let at = this.nextEventAt(); due(at); at = this.nextEventAt()) {
      this.#now = Math.max(this.#now, at)
      for (const sequence of this.#held.take(this.#now)) {
        this.counters.lapsedHolds += 1
        this.#letGo(sequence, this.#now)
      }
      if (this.#stepEndsAt <= this.#now) this.#finishStep()
      if (this.#stepEndsAt === Infinity && !this.#paused) this.#startStep()
    }
    this.#advancing = false
  }

  #wake(now: number): void {
    this.#wakeAt = Math.min(this.#wakeAt, Math.max(now, this.#now))
  }

  #letGo(sequence: Sequence, now: number): void {
    sequence.holding = false
    this.#cache.close(sequence)
    this.#wake(now)
  }

  #startStep(): void {
    this.#wakeAt = Infinity
    for (const sequence of this.#transfers.take(this.#now)) {
      sequence.state = 'ready'
      sequence.computed = sequence.transferEnd
      this.#scheduler.ready.push(sequence)
    }
    const lostBlocks = this.#scheduler.plan(this.#now)
    if (this.#scheduler.scheduled.length === 0) {
      if (lostBlocks) this.#wake(this.#now)
      return
    }
    const durationMs = batchMs(this.costModel, this.#scheduler.scheduled) * this.slowdown
    this.counters.steps += 1
    this.counters.busyMs += durationMs
    this.#stepEndsAt = this.#now + durationMs
    this.#listener.step?.(
      this.#scheduler.scheduled.reduce((sum, { chunk }) => sum + chunk, 0),
      this.#now,
    )
  }

  #fetch(sequence: Sequence, now: number): boolean {
    const source =
      sequence.spec.remote === true
        ? this.#peer(sequence)
        : (this.#fetchSource?.(sequence.spec, sequence.computed) ?? null)
    if (source === null || source.tokens <= sequence.computed) return false
    this.#cache.grow(sequence, source.tokens)
    sequence.transferred = true
    sequence.fetchedTokens = source.tokens - sequence.computed
    // The last token is computed here, because the first output depends on it.
    sequence.transferEnd = Math.min(source.tokens, sequence.spec.promptTokens - 1)
    sequence.state = 'transfer'
    sequence.dueAt = now + source.ms * this.slowdown
    this.counters.fetchedTokens += sequence.fetchedTokens
    this.#transfers.add(sequence)
    return true
  }

  /** The engine that computed the prompt has all of its blocks. */
  #peer({ spec: { promptTokens }, computed }: Sequence): FetchSource {
    return {
      tokens: promptTokens,
      ms: this.costModel.transferMs + this.costModel.transferTokenMs * (promptTokens - computed),
    }
  }

  #finishStep(): void {
    const scheduler = this.#scheduler
    const done = scheduler.scheduled
    scheduler.scheduled = []
    this.#stepEndsAt = Infinity
    this.#wakeAt = this.#now
    let ended = false
    for (const sequence of done) {
      const { chunk } = sequence
      sequence.chunk = 0
      // Aborted during the step.
      if (sequence.state !== 'running') continue
      sequence.computed += chunk
      if (sequence.computed < sequence.tokens) continue
      this.#countToken(sequence)
      // The listener may have aborted it.
      if (sequence.state === 'running' && sequence.outputs === sequence.spec.outputTokens) {
        ended = true
        this.#end(sequence, 'complete', this.#now)
      }
    }
    if (ended) scheduler.running = scheduler.running.filter((sequence) => !sequence.ended)
    if (this.#journal?.isEmpty === false) this.#listener.cached?.(this.#journal.take(), this.#now)
  }

  #countToken(sequence: Sequence): void {
    sequence.outputs += 1
    this.counters.outputTokens += 1
    if (sequence.firstTokenAt < 0) sequence.firstTokenAt = this.#now
    else {
      sequence.lastGapMs = this.#now - sequence.lastTokenAt
      if (sequence.lastGapMs > sequence.longestGapMs) sequence.longestGapMs = sequence.lastGapMs
    }
    sequence.lastTokenAt = this.#now
    this.#listener.token?.(sequence, this.#now)
  }

  #end(sequence: Sequence, state: 'complete' | 'aborted', now: number): void {
    sequence.state = state
    sequence.endedAt = now
    if (state === 'complete') this.counters.completed += 1
    if (state === 'complete' && sequence.spec.hold === true) {
      sequence.holding = true
      sequence.dueAt = now + this.#holdLeaseMs
      this.#held.add(sequence)
    } else this.#cache.close(sequence)
    this.#listener.ended?.(sequence, now)
  }
}
