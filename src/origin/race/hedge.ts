/** Hedging (`retry.hedge_ms`): asks for a second engine if the first byte is late. */
import type { PoolSettings } from '../../config.ts'
import { FirstByteLimit } from '../../core/latency/first-byte-limit.ts'
import { timersOf } from '../../timers.ts'
import type { OpenRace, RaceStart, RaceTrigger } from './race.ts'

/** Shortest delay with `auto`, ms: below it, timers and the network decide who is late. */
const MIN_DELAY_MS = 50

/** Hedges the requests of one pool. */
export function hedge(hedgeMs: Exclude<PoolSettings['retry']['hedgeMs'], 'off'>): (race: OpenRace) => RaceTrigger {
  if (typeof hedgeMs === 'number') return (race) => new Hedge(race, hedgeMs, null)
  const limit = new FirstByteLimit()
  // Without a stream the first byte comes with the last one, and no prediction covers that.
  return (race) => (race.attempt.exchange.stream ? learnedHedge(race, limit) : new Hedge(race, null, null))
}

function learnedHedge(race: OpenRace, limit: FirstByteLimit): Hedge {
  const { ratio } = limit
  const { predictedTtftMs } = race.attempt.placed
  const isKnown = ratio !== null && predictedTtftMs !== null
  return new Hedge(race, isKnown ? Math.max(MIN_DELAY_MS, ratio * predictedTtftMs) : null, limit)
}

class Hedge implements RaceTrigger {
  readonly #race: OpenRace
  readonly #limit: FirstByteLimit | null
  readonly #cancel: () => void

  /**
   * @param delayMs time after which the first byte is late; null: unknown
   * @param limit learns from the race; null: nothing does
   */
  constructor(race: OpenRace, delayMs: number | null, limit: FirstByteLimit | null) {
    this.#race = race
    this.#limit = limit
    const { exchange, ports } = race.attempt
    const timer =
      delayMs === null ? null : timersOf(exchange.scope, ports).set(delayMs, () => void race.askSecond('hedge'))
    this.#cancel = () => timer?.cancel()
  }

  began(winner: RaceStart, other: RaceStart | null): void {
    const now = this.#race.attempt.ports.now()
    if (winner.predictedMs !== null) this.#limit?.add(winner.predictedMs, now - winner.startedAt)
    if (other !== null && other.predictedMs !== null) this.#limit?.addLater(other.predictedMs, now - other.startedAt)
  }

  end(): void {
    this.#cancel()
  }
}
