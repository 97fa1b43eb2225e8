import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { PrefillStretch, StretchSample } from '../../../src/core/cluster/prefill-stretch.ts'
import { type Prefill, PrefillQueue, type QueuedPrefill } from '../../../src/core/cluster/prefill-work.ts'
import { chance } from '../../../src/simulator/replay/chance.ts'
import { type NaivePrefill, NaivePrefillQueue } from './naive-prefill-queue.ts'

/** A queue or its model, and all that anybody ever learns of it. */
function watched<P>(make: (teach: (sample: StretchSample) => void, presumed: (at: number, prefill: Prefill) => void) => P) {
  const said: unknown[] = []
  const queue = make((sample) => said.push(['taught', sample]), (at, { newTokens, sequences }) => said.push(['presumed', at, newTokens, sequences]))
  return { queue, said }
}

const step = fc.record({
  do: fc.constantFrom('add' as const, 'add' as const, 'add' as const, 'firstToken' as const, 'abandon' as const, 'settle' as const, 'tell' as const, 'everyone' as const),
  elapsed: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 3000 }), fc.double({ min: 0, max: 20, noNaN: true })),
  which: fc.oneof(fc.constant(0), fc.nat()),
  /** An answer that is no stream tells of its first token when it has ended. */
  ago: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 2000, noNaN: true })),
  seconds: fc.oneof(fc.constant(0), fc.double({ min: 0, max: 9, noNaN: true })),
  newTokens: fc.integer({ min: 0, max: 9000 }),
  shows: fc.constantFrom(true, true, false, undefined),
  wasPrefilled: fc.boolean(),
})
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

interface Pair {
  readonly fast: QueuedPrefill
  readonly naive: NaivePrefill
}

/** The queue and its model side by side. */
class Twins {
  readonly fast = watched((teach, presumed) => new PrefillQueue(teach, presumed))
  readonly naive = watched((teach, presumed) => new NaivePrefillQueue(teach, presumed))
  readonly pending: Pair[] = []
  readonly stretches: [PrefillStretch, PrefillStretch][] = []
  readonly #known = new Map<PrefillStretch, PrefillStretch>()

  take(one: Step, now: number): void {
    if (one.do === 'add') this.#add(one, now)
    else if (one.do === 'settle') for (const { queue } of [this.fast, this.naive]) queue.settle(now)
    else if (one.do === 'tell') this.#tell(one)
    else if (one.do === 'everyone') while (one.which % 7 === 0 && this.pending.length > 0) this.#abandon(one, now)
    else if (this.pending.length > 0 && one.do === 'abandon') this.#abandon(one, now)
    else if (this.pending.length > 0) this.#firstToken(one, now - one.ago)
  }

  #add({ newTokens, seconds, shows }: Step, now: number): void {
    const prefill = { newTokens, work: newTokens * 3, seconds, shows, sequences: 1 + (newTokens % 3) }
    this.pending.push({ fast: this.fast.queue.add(prefill, now), naive: this.naive.queue.add(prefill, now) })
  }

  #abandon({ which, wasPrefilled }: Step, now: number): void {
    const [{ fast, naive }] = this.pending.splice(which % this.pending.length, 1) as [Pair]
    this.fast.queue.abandon(fast, now, wasPrefilled)
    this.naive.queue.abandon(naive, now, wasPrefilled)
  }

  /** Who has had a first token is abandoned, too, when it ends: that must be harmless. */
  #firstToken({ which }: Step, at: number): void {
    const { fast, naive } = this.pending[which % this.pending.length]!
    const stretches = [this.fast.queue.firstToken(fast, at), this.naive.queue.firstToken(naive, at)] as const
    expect([stretches[0] === null, stretches[0] === null ? undefined : this.#known.get(stretches[0]) ?? stretches[1]]).toEqual([stretches[1] === null, stretches[1] ?? undefined])
    if (stretches[0] === null || stretches[1] === null) return
    this.#known.set(stretches[0], stretches[1])
    this.stretches.push([stretches[0], stretches[1]])
  }

  #tell({ newTokens, which }: Step): void {
    for (const stretch of this.stretches.shift() ?? []) stretch.tell(which % 9 === 0 ? null : { newTokens, pairs: newTokens * 2 }, 0.01)
  }

  answers(of: 'fast' | 'naive', now: number): unknown {
    const { queue, said } = this[of]
    const entries = this.pending.map((pair) => [pair[of].counts, pair[of].presumedAt, pair[of].ended])
    return [queue.length, queue.newTokens, queue.work, queue.isEmpty, queue.seconds(now), queue.seconds(now + 17_000), queue.seconds(now + 900_000), entries, said]
  }
}

describe('PrefillQueue', () => {
  it('answers what its slow and obvious model answers, to the last bit, after any history of an engine', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 250, size: 'max' }), (steps) => {
        const twins = new Twins()
        let now = 1000
        for (const one of steps) {
          now += one.elapsed
          twins.take(one, now)
          expect(twins.answers('fast', now)).toEqual(twins.answers('naive', now))
        }
      }),
      { numRuns: 300 },
    )
  })

  const orders: readonly [string, (all: QueuedPrefill[]) => QueuedPrefill[]][] = [
    ['in which they came', (all) => all],
    ['of the newest first', (all) => all.reverse()],
    ['that is none', (all) => shuffled(all)],
  ]

  // Ten thousand bookings of a replica that went away took half a second before.
  it.each(orders)('looks at few others for each of thousands that end together, in the order %s', (_order, arrange) => {
    for (const end of ['abandon', 'firstToken'] as const) {
      const queue = new PrefillQueue(() => {})
      const looks = { count: 0 }
      // The first come while the engine is believed to have nothing to do, the others in a burst.
      const all = Array.from({ length: 4000 }, (_, at) => counted(queue.add({ newTokens: 100, work: 5050, seconds: 0.01, shows: at % 3 > 0 }, Math.min(at, 1000) * 11 + at), looks))
      for (const one of arrange(all)) queue[end](one, 16_000)
      expect(queue.isEmpty).toBe(true)
      expect(looks.count).toBeLessThan(40 * all.length)
    }
  })
})

/** Each time somebody looks where it stands, or goes on from it to its neighbours, that counts. */
function counted(queued: QueuedPrefill, looks: { count: number }): QueuedPrefill {
  for (const name of ['previous', 'next', 'order', 'bookedAt'] as const) {
    let value: unknown = queued[name]
    Object.defineProperty(queued, name, {
      get: () => {
        looks.count += 1
        return value
      },
      set: (other: unknown) => {
        value = other
      },
    })
  }
  return queued
}

function shuffled<T>(all: readonly T[]): T[] {
  const random = chance(7)
  return all.map((one) => ({ one, key: random() })).sort((a, b) => a.key - b.key).map(({ one }) => one)
}
