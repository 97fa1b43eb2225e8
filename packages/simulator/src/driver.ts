import type { CacheChange } from './cache-journal.ts'
import type { Clock } from './clock.ts'
import { EngineModel, type EngineModelOptions } from './engine-model.ts'
import type { Sequence, SequenceSpec } from './sequence.ts'

/** Callbacks for one sequence. */
interface Watcher {
  token(sequence: Sequence): void
  ended(sequence: Sequence): void
}

/** Callbacks for measurements over all sequences. */
interface Measures {
  /** Time between two tokens of a sequence, ms. */
  readonly gap: (ms: number) => void
  /** Number of tokens that a step computes. */
  readonly step: (tokens: number) => void
  /** Changes of the prefix cache. */
  readonly cached?: (changes: readonly CacheChange[]) => void
}

/** Runs a model by a clock with one timer, set to the model's next event. */
export class Driver {
  readonly model: EngineModel
  readonly #clock: Clock
  readonly #watchers = new Map<Sequence, Watcher>()
  #cancelTimer: (() => void) | null = null
  #timerAt = Infinity

  constructor(clock: Clock, options: EngineModelOptions, measures: Measures) {
    this.#clock = clock
    this.model = new EngineModel(options, {
      step: measures.step,
      ...(measures.cached === undefined ? {} : { cached: measures.cached }),
      token: (sequence) => {
        if (sequence.outputs > 1) measures.gap(sequence.lastGapMs)
        this.#watchers.get(sequence)?.token(sequence)
      },
      ended: (sequence) => {
        const watcher = this.#watchers.get(sequence)
        this.#watchers.delete(sequence)
        watcher?.ended(sequence)
      },
    })
  }

  submit(spec: SequenceSpec, watcher: Watcher): Sequence {
    const sequence = this.model.submit(spec, this.#clock.now())
    this.#watchers.set(sequence, watcher)
    this.arm()
    return sequence
  }

  abort(sequence: Sequence): void {
    this.model.abort(sequence, this.#clock.now())
    this.arm()
  }

  /** Stops the engine core, or lets it continue. */
  freeze(isFrozen: boolean): void {
    this.model.freeze(isFrozen, this.#clock.now())
    this.arm()
  }

  /** Call this after any external change to the model. */
  arm(): void {
    const at = this.model.nextEventAt()
    if (at === this.#timerAt) return
    this.#cancelTimer?.()
    this.#timerAt = at
    this.#cancelTimer =
      at === Infinity ? null : this.#clock.after(Math.max(0, at - this.#clock.now()), () => this.#fire())
  }

  #fire(): void {
    this.#timerAt = Infinity
    this.#cancelTimer = null
    this.model.advance(this.#clock.now())
    this.arm()
  }
}
