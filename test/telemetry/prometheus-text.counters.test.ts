import fc from 'fast-check'
import { expect, it } from 'vitest'
import { PoolState } from '../../src/core/pool/pool-state.ts'
import type { PoolSnapshot } from '../../src/core/pool/snapshot.ts'
import { exposition } from '../../src/telemetry/prometheus-text.ts'
import { admission, engines, failed, outcome, pool } from '../kit/pool-fixtures.ts'
import { parseExposition } from './parse-exposition.ts'

const OWN = { draining: false, silentEngines: 0, unreachablePools: 0, own: null }

/** Adds up a counter as Prometheus does: a decrease is a restart at zero. */
class Increase {
  readonly #last = new Map<string, number>()
  total = 0

  scraped(series: string, value: number): void {
    const last = this.#last.get(series) ?? 0
    this.total += value < last ? value : value - last
    this.#last.set(series, value)
  }
}

it('counters never exceed the true counts in Prometheus, even after an object restores an old snapshot', () => {
  const step = fc.constantFrom('served', 'served', 'served', 'failed', 'written', 'lost', 'scraped', 'scraped')
  fc.assert(
    fc.property(fc.array(step, { minLength: 20, maxLength: 60 }), (steps) => {
      const config = pool({
        engines: engines('a', 'b'),
        policy: { name: 'round_robin', options: {} },
        circuit: { failures: 1_000, openMs: 1 },
      })
      const begin = () => new PoolState({ random: () => 0, epoch: 'e' })
      let state = begin()
      state.configure(1, config, 0)
      let written: PoolSnapshot | null = null
      let now = 0
      const truth = { bookings: 0, failures: 0 }
      const seen = { bookings: new Increase(), failures: new Increase() }
      const scrape = () => {
        const families = parseExposition(exposition({ digests: [state.digest(now)], rollups: [], gateway: OWN }))
        for (const kind of ['bookings', 'failures'] as const) {
          for (const { labels, value } of families.get(`firstlight_engine_${kind}_total`)?.samples ?? [])
            seen[kind].scraped(labels['engine']!, value)
        }
      }
      for (const one of steps) {
        now += 1_000
        if (one === 'written') written = structuredClone(state.snapshot(now))
        else if (one === 'scraped') scrape()
        else if (one === 'lost') {
          state = begin()
          if (written === null) state.configure(1, config, now)
          else state.restore(written, now)
        } else {
          const admitted = state.admit(admission(), now)
          if ('refusal' in admitted) throw new Error(admitted.refusal.reason)
          truth.bookings += 1
          if (one === 'failed') truth.failures += 1
          state.release(admitted.key, one === 'failed' ? failed : outcome(), now)
        }
      }
      scrape()
      for (const kind of ['bookings', 'failures'] as const) {
        if (steps.includes('lost')) expect(seen[kind].total).toBeLessThanOrEqual(truth[kind])
        else expect(seen[kind].total).toBe(truth[kind])
      }
    }),
  )
})
