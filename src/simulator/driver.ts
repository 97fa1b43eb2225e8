import type { Clock } from './clock.ts'
import type { CacheChange } from './cache-journal.ts'
import { EngineModel, type EngineModelOptions } from './engine-model.ts'
import type { Sequence, SequenceSpec } from './sequence.ts'

/** Told about one sequence as time passes. */
export interface Watcher {
  token(sequence: Sequence): void
  ended(sequence: Sequence): void
}

/** Told what is measured of all sequences together. */
export interface Measures {
  /** A wait between two tokens of a sequence, ms. */
  readonly gap: (ms: number) => void
  /** A step computes so many tokens. */
  readonly step: (tokens: number) => void
  /** The prefix cache changed. */
  readonly cached?: (changes: readonly CacheChange[]) => void
}

/** Runs a model by a clock: one timer, set to the model's next event. */
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

  /** After any change to the model from outside. */
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
