/** Rescue: asks for a second engine if that of the first attempt is wedged. */
import { firstQuestionMs, nextQuestionMs } from '../../core/pool/condition/rescue-times.ts'
import type { Timer } from '../../ports/timers.ts'
import { timersOf } from '../../timers.ts'
import type { OpenRace, RaceTrigger } from './race.ts'

export const rescue = (race: OpenRace): RaceTrigger => new Rescue(race)

/** Asks again and again, less and less often, whether the engine is wedged. */
class Rescue implements RaceTrigger {
  readonly #race: OpenRace
  #timer: Timer
  /** Interval of the last question. */
  #intervalMs: number | null = null
  #isOver = false

  constructor(race: OpenRace) {
    this.#race = race
    this.#timer = this.#later(firstQuestionMs(race.attempt.placed.predictedTtftMs ?? 0))
  }

  began(): void {}

  end(): void {
    this.#isOver = true
    this.#timer.cancel()
  }

  #later(delayMs: number): Timer {
    const { exchange, ports } = this.#race.attempt
    return timersOf(exchange.scope, ports).set(delayMs, () => void this.#ask())
  }

  async #ask(): Promise<void> {
    await this.#race.askSecond('rescue')
    if (this.#isOver || !this.#race.isOpen) return
    this.#intervalMs = nextQuestionMs(this.#intervalMs)
    this.#timer = this.#later(this.#intervalMs)
  }
}
