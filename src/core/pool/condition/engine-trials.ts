import type { EngineSignal } from '../../contract/engine-signal.ts'

export type TrialSignal = Extract<EngineSignal, { readonly kind: 'trial' }>

interface SentTrial {
  readonly sentAt: number
  readonly limitMs: number
}

/** Trials of one engine: one-token requests of the gateway itself. A snapshot has none of it. */
export class EngineTrials {
  #running: SentTrial | null = null
  #triedAt = -Infinity
  #failedAt = -Infinity
  #isUnserved = false

  /** The trial that is on its way. null: none is. */
  get running(): SentTrial | null {
    return this.#running
  }

  /** When the last one that has ended was sent, ms since the epoch: one that hung for its limit is repeated at once. */
  get triedAt(): number {
    return this.#triedAt
  }

  /** When one failed last, ms since the epoch. */
  get failedAt(): number {
    return this.#failedAt
  }

  /** The last one showed only that the engine does not serve such requests. */
  get isUnserved(): boolean {
    return this.#isUnserved
  }

  sent(trial: SentTrial): void {
    this.#running = trial
  }

  ended(result: TrialSignal['result'], now: number): void {
    this.#triedAt = this.#running?.sentAt ?? now
    this.#running = null
    this.#isUnserved = result === 'unclear'
    if (result === 'failed') this.#failedAt = now
  }
}
