import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Deadline, TimerWheel } from '../../../src/platform/node/timer-wheel.ts'

const SLOT_MS = 10
const SLOTS = 8

/** The same by a list that is looked through each time. */
class Model {
  readonly #waiting = new Map<number, { readonly at: number; readonly slot: number }>()
  #passed: number

  constructor(now: number) {
    this.#passed = Math.floor(now / SLOT_MS)
  }

  set(id: number, at: number): void {
    this.#waiting.set(id, { at, slot: Math.max(Math.ceil(at / SLOT_MS), this.#passed + 1) })
  }

  cancel(id: number): void {
    this.#waiting.delete(id)
  }

  /** Those that must have rung, and those that may have. */
  turn(now: number): { readonly must: number[]; readonly may: number[] } {
    this.#passed = Math.floor(now / SLOT_MS)
    const due = [...this.#waiting].filter(([, { at }]) => at <= now)
    const must = due.filter(([, { slot }]) => slot <= this.#passed).map(([id]) => id)
    return { must, may: due.map(([id]) => id) }
  }

  get size(): number {
    return this.#waiting.size
  }
}

const step = fc.oneof(
  fc.record({
    kind: fc.constant('set' as const),
    id: fc.nat(9),
    inMs: fc.oneof(fc.nat(40), fc.nat(500), fc.double({ min: 0, max: 100, noNaN: true })),
  }),
  fc.record({ kind: fc.constant('cancel' as const), id: fc.nat(9) }),
  fc.record({ kind: fc.constant('turn' as const), afterMs: fc.oneof(fc.nat(15), fc.nat(300)) }),
)

describe('a timer wheel', () => {
  it('rings each deadline once, never early, and no later than the slot it is due in, or the next one turned', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), fc.nat(1000), (steps, startMs) => {
        let now = startMs
        const model = new Model(now)
        const wheel = new TimerWheel({ slotMs: SLOT_MS, slots: SLOTS }, now)
        let rung: number[] = []
        const deadlines = Array.from({ length: 10 }, (_, id) => new Deadline(() => rung.push(id)))
        for (const one of steps) {
          if (one.kind === 'set') {
            wheel.set(deadlines[one.id]!, now + one.inMs)
            model.set(one.id, now + one.inMs)
          } else if (one.kind === 'cancel') {
            wheel.cancel(deadlines[one.id]!)
            model.cancel(one.id)
          } else {
            now += one.afterMs
            rung = []
            wheel.turn(now)
            const { must, may } = model.turn(now)
            expect(new Set(rung).size).toBe(rung.length)
            expect(rung).toEqual(expect.arrayContaining(must))
            expect(may).toEqual(expect.arrayContaining(rung))
            for (const id of rung) model.cancel(id)
          }
          expect(wheel.size).toBe(model.size)
        }
      }),
      { numRuns: 500 },
    )
  })

  it('bears deadlines that set and cancel each other, and themselves, as they ring', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(9), fc.integer({ min: -1, max: 200 })), { minLength: 10, maxLength: 10 }),
        fc.array(fc.nat(400), { maxLength: 20 }),
        (acts, pauses) => {
          let now = 0
          let rings = 0
          const wheel = new TimerWheel({ slotMs: SLOT_MS, slots: SLOTS }, now)
          const deadlines: Deadline[] = acts.map(
            ([other, inMs]) =>
              new Deadline((at) => {
                rings++
                if (inMs < 0) wheel.cancel(deadlines[other]!)
                else wheel.set(deadlines[other]!, at + 1 + inMs)
              }),
          )
          for (const [id, deadline] of deadlines.entries()) wheel.set(deadline, id * 7)
          for (const pause of pauses) {
            now += pause
            wheel.turn(now)
            for (const deadline of deadlines) if (deadline.slot >= 0) expect(deadline.at).toBeGreaterThan(now - SLOT_MS)
          }
          // Each ring sets at most one.
          expect(rings).toBeLessThanOrEqual(10 * (1 + pauses.length * SLOTS * 50))
        },
      ),
      { numRuns: 200 },
    )
  })
})
