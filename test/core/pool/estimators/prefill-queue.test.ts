import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Prefill, PrefillQueue, type QueuedPrefill } from '../../../../src/core/pool/estimators/prefill-queue.ts'
import { chance } from '../../../../packages/replay/src/replay/chance.ts'
import { type Job, PrefillQueueModel, sum } from './prefill-queue-model.ts'
import { StretchModel } from '../../latency/busy-period-model.ts'

const ms = (max: number) => fc.oneof(fc.constantFrom(0, 3), fc.integer({ min: 0, max }))
// Whole milliseconds, so that the sums of queue and model are equal in any order of addition.
const step = fc.record({
  do: fc.constantFrom(
    'add' as const,
    'add' as const,
    'add' as const,
    'firstToken' as const,
    'abandon' as const,
    'settle' as const,
    'all' as const,
  ),
  elapsed: ms(3000),
  which: fc.oneof(fc.constant(0), fc.nat()),
  /** An unstreamed response reports its first token when it has ended. */
  ago: ms(2000),
  prefillMs: ms(9000),
  newTokens: fc.oneof(fc.constantFrom(4096, 8192), fc.integer({ min: 0, max: 9000 })),
  streams: fc.constantFrom(true, true, false, undefined),
  wasPrefilled: fc.boolean(),
})
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never

interface Pair {
  readonly queued: QueuedPrefill
  readonly job: Job
}

/** The queue and its models side by side. */
class Twins {
  readonly queue: PrefillQueue
  readonly model = new PrefillQueueModel()
  readonly stretches = new StretchModel()
  readonly presumed: Prefill[] = []
  readonly jobs: Job[] = []
  readonly #pending: Pair[] = []

  constructor() {
    this.queue = new PrefillQueue(
      () => {},
      (_at, prefill) => void this.presumed.push(prefill),
    )
  }

  take(one: Step, now: number): void {
    if (one.do === 'add') this.#add(one, now)
    else if (one.do === 'settle') for (const side of [this.queue, this.model]) side.settle(now)
    else if (one.do === 'all') while (one.which % 7 === 0 && this.#pending.length > 0) this.#abandon(one, now)
    else if (this.#pending.length > 0 && one.do === 'abandon') this.#abandon(one, now)
    else if (this.#pending.length > 0) this.#firstToken(one, now - one.ago)
  }

  #add({ newTokens, prefillMs, streams }: Step, now: number): void {
    const prefill = {
      newTokens,
      work: newTokens * 3,
      seconds: prefillMs / 1000,
      streams,
      sequences: 1 + (newTokens % 3),
    }
    this.model.settle(now)
    this.stretches.booked(this.jobs.length, now, sum(this.model.waiting, 'left') === 0)
    const job = this.model.add(prefill, now)
    this.jobs.push(job)
    this.#pending.push({ queued: this.queue.add(prefill, now), job })
  }

  #abandon({ which, wasPrefilled }: Step, now: number): void {
    const [{ queued, job }] = this.#pending.splice(which % this.#pending.length, 1) as [Pair]
    this.queue.abandon(queued, now, wasPrefilled)
    if (job.ended) return
    this.model.pass(now)
    this.model.end(job, now)
    this.stretches.ended(job.order, now, wasPrefilled)
  }

  /** A request with a first token is also abandoned when it ends, which must have no effect. */
  #firstToken({ which }: Step, at: number): void {
    const { queued, job } = this.#pending[which % this.#pending.length]!
    const stretch = this.queue.firstToken(queued, at)
    const expected = job.ended
      ? null
      : this.stretches.firstToken(job.order, { at, newTokens: job.newTokens, next: this.jobs.length })
    this.model.firstToken(job, at)
    expect(stretch && [stretch.from, stretch.prompts, stretch.bookedTokens]).toEqual(
      expected && near([expected.from, expected.prompts, expected.bookedTokens]),
    )
  }

  seen(side: PrefillQueue | PrefillQueueModel): unknown {
    const isQueue = side instanceof PrefillQueue
    const { waiting } = this.model
    const counts = isQueue
      ? [side.length, side.newTokens, side.work, side.isEmpty]
      : [waiting.length, sum(waiting, 'newTokens'), sum(waiting, 'work'), waiting.length === 0]
    const entries = this.#pending
      .map(({ queued, job }) => (isQueue ? queued : job))
      .map(({ counts: waits, presumedAt, ended }) => [waits, presumedAt, ended])
    return [counts, entries]
  }

  waits(side: PrefillQueue | PrefillQueueModel, now: number): number[] {
    return [0, 17_000, 900_000].map((later) => side.seconds(now + later))
  }
}

/** Rounds numbers, because queue and model add the same times in a different order. */
function near(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(near)
  return Number.isFinite(value) ? expect.closeTo(value as number, 6) : value
}

describe('PrefillQueue', () => {
  it('PrefillQueue equals a queue with one server and known service times, after any history', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 250, size: 'max' }), (steps) => {
        const twins = new Twins()
        let now = 1000
        for (const one of steps) {
          now += one.elapsed
          twins.take(one, now)
          expect(twins.seen(twins.queue)).toEqual(near(twins.seen(twins.model)))
          expect(twins.waits(twins.queue, now)).toEqual(near(twins.waits(twins.model, now)))
        }
        // Each is reported once: from then on it counts as decoding.
        expect(twins.presumed.map(({ newTokens }) => newTokens).toSorted()).toEqual(
          twins.jobs
            .filter(({ presumedAt }) => presumedAt !== null)
            .map(({ newTokens }) => newTokens)
            .toSorted(),
        )
      }),
      { numRuns: 200, endOnFailure: true },
    )
  })

  const orders: readonly [string, (all: QueuedPrefill[]) => QueuedPrefill[]][] = [
    ['in which they came', (all) => all],
    ['of the newest first', (all) => all.reverse()],
    ['that is none', (all) => shuffled(all)],
  ]

  // Regression: ten thousand bookings of a replica that disconnected took half a second.
  it.each(orders)(
    'PrefillQueue looks at few others for each of thousands that end together, in the order %s',
    (_order, arrange) => {
      for (const end of ['abandon', 'firstToken'] as const) {
        const queue = new PrefillQueue(() => {})
        const looks = { count: 0 }
        // The first arrive while the predicted queue is empty, the others in a burst.
        const all = Array.from({ length: 4000 }, (_, at) =>
          counted(
            queue.add({ newTokens: 100, work: 5050, seconds: 0.01, streams: at % 3 > 0 }, Math.min(at, 1000) * 11 + at),
            looks,
          ),
        )
        for (const one of arrange(all)) queue[end](one, 16_000)
        expect(queue.isEmpty).toBe(true)
        expect(looks.count).toBeLessThan(40 * all.length)
      }
    },
  )
})

/** Counts each read of its position and neighbours. */
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
  return all
    .map((one) => ({ one, key: random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ one }) => one)
}
