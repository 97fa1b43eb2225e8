import { expect, it } from 'vitest'
import { hedge } from '../../../src/origin/race/hedge.ts'
import type { OpenRace, RaceStart, RaceTrigger } from '../../../src/origin/race/race.ts'

const PREDICTED_MS = 100

/** Races of one pool with `hedge_ms: auto`, on a clock of the test. */
class AutoHedges {
  #now = 0
  readonly #start = hedge('auto')
  /** Delay of the last race's hedge, ms. null: it has none. */
  #delayMs: number | null = null

  /** The delay of the next race's hedge, ms. null: it is not hedged. */
  get delayMs(): number | null {
    this.#open().end()
    return this.#delayMs
  }

  /** Runs races in which the winner's first byte comes after `ms`. `other`: how long the other attempt has run then. */
  run(races: number, ms: number, other: { readonly waitedMs: number } | null = null): void {
    for (let at = 0; at < races; at++) {
      const trigger = this.#open()
      this.#now += 10_000
      trigger.began(this.#started(ms), other === null ? null : this.#started(other.waitedMs))
      trigger.end()
    }
  }

  #open(): RaceTrigger {
    this.#delayMs = null
    const timers = {
      set: (delayMs: number) => {
        this.#delayMs = delayMs
        return { cancel: () => {} }
      },
    }
    const attempt = {
      exchange: { stream: true, scope: {} },
      ports: { now: () => this.#now, timers },
      placed: { predictedTtftMs: PREDICTED_MS },
    }
    return this.#start({ attempt } as unknown as OpenRace)
  }

  #started(agoMs: number): RaceStart {
    return { startedAt: this.#now - agoMs, predictedMs: PREDICTED_MS }
  }
}

it('hedges with `auto` wait as long as the winners of earlier races took, and none is sent before 64 races', () => {
  const hedges = new AutoHedges()
  hedges.run(63, 4 * PREDICTED_MS)
  expect(hedges.delayMs).toBeNull()
  hedges.run(1, 4 * PREDICTED_MS)
  expect(hedges.delayMs! / PREDICTED_MS).toBeGreaterThan(4)
  expect(hedges.delayMs! / PREDICTED_MS).toBeLessThan(5)
})

it('hedges with `auto` learn from a second engine that won how long it took itself, not how long the client waited', () => {
  const hedges = new AutoHedges()
  hedges.run(64, PREDICTED_MS, { waitedMs: 50 * PREDICTED_MS })
  expect(hedges.delayMs! / PREDICTED_MS).toBeLessThan(1.5)
})

it('hedges with `auto` count an attempt that lost as one that took longer than it has waited', () => {
  const hedges = new AutoHedges()
  hedges.run(64, PREDICTED_MS)
  const before = hedges.delayMs!
  hedges.run(64, PREDICTED_MS, { waitedMs: 3 * PREDICTED_MS })
  expect(hedges.delayMs).toBeGreaterThan(before)
})

it('hedges with `auto` learn nothing from an attempt that lost and was not late', () => {
  const hedges = new AutoHedges()
  hedges.run(64, PREDICTED_MS)
  const before = hedges.delayMs
  hedges.run(64, PREDICTED_MS, { waitedMs: PREDICTED_MS / 2 })
  expect(hedges.delayMs).toBe(before)
})
