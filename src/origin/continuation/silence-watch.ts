/** Asks, while a stream is silent, whether it should leave its engine because that is wedged. */
import { firstQuestionMs, nextQuestionMs } from '../../core/pool/condition/rescue-times.ts'
import type { Timer, Timers } from '../../ports/timers.ts'

interface SilenceParts {
  readonly timers: Timers
  now(): number
  /** Since when the engine has been silent; null: it is not. */
  silentSince(): number | null
  /** Whether the stream left. */
  ask(): Promise<boolean>
}

/** One timer for the whole stream, so that chunks cost nothing. */
export class SilenceWatch {
  readonly #parts: SilenceParts
  #timer: Timer | null = null
  #intervalMs: number | null = null
  #isOver = false

  constructor(parts: SilenceParts) {
    this.#parts = parts
    this.#wait(firstQuestionMs(0))
  }

  end(): void {
    this.#isOver = true
    this.#timer?.cancel()
  }

  #wait(ms: number): void {
    if (!this.#isOver) this.#timer = this.#parts.timers.set(ms, () => void this.#wake())
  }

  async #wake(): Promise<void> {
    const since = this.#parts.silentSince()
    const leftMs = since === null ? firstQuestionMs(0) : since + firstQuestionMs(0) - this.#parts.now()
    if (leftMs > 1) {
      this.#intervalMs = null
      return this.#wait(leftMs)
    }
    this.#intervalMs = (await this.#parts.ask()) ? null : nextQuestionMs(this.#intervalMs)
    this.#wait(this.#intervalMs ?? firstQuestionMs(0))
  }
}
