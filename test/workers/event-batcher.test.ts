import { expect, it } from 'vitest'
import fc from 'fast-check'
import type { BookingEvent } from '../../src/core/contract/booking-event.ts'
import { EventBatcher, type BookingEventBatch } from '../../src/platform/workers/event-batcher.ts'
import { RequestTimers } from '../../src/platform/workers/request-timers.ts'

const LINGER_MS = 20
const word = (index: number): BookingEvent => ['progress', `booking#${index}`, index]

it('the event batcher makes the first caller the carrier, and lets the others rely on it', () => {
  let now = 1_000
  const batcher = new EventBatcher(() => now)
  expect(batcher.add(word(1), LINGER_MS)).toBe(true)
  expect(batcher.add(word(2), LINGER_MS)).toBe(false)
  now += LINGER_MS
  batcher.carrierFree()
  expect(batcher.take().bookingEvents).toEqual([word(1), word(2)])
  expect(batcher.isEmpty).toBe(true)
  expect(batcher.add(word(3), LINGER_MS)).toBe(true)
})

it('the event batcher selects another carrier when the first does not come', () => {
  let now = 1_000
  const batcher = new EventBatcher(() => now)
  batcher.add(word(1), LINGER_MS)
  now += 1_000
  expect(batcher.add(word(2), LINGER_MS)).toBe(true)
  expect(batcher.take().bookingEvents).toEqual([word(1), word(2)])
})

it('the event batcher lets other calls take the events, and sends them itself when one has waited for the maximum time', () => {
  let now = 1_000
  const batcher = new EventBatcher(() => now)
  batcher.add(word(1), LINGER_MS)
  now += 15
  batcher.arrived(batcher.take())
  now += 5
  expect(batcher.add(word(2), LINGER_MS)).toBe(false)
  expect(batcher.lingerMs(LINGER_MS)).toBe(15)
  now += 10
  // The waiting caller has extended its promise.
  expect(batcher.add(word(3), LINGER_MS)).toBe(false)
  now += 5
  expect(batcher.lingerMs(LINGER_MS)).toBe(0)
  expect(batcher.take().bookingEvents).toEqual([word(2), word(3)])
  now += 1
  expect(batcher.lingerMs(LINGER_MS)).toBe(0)
})

it('the event batcher resends failed events before later ones', () => {
  const batcher = new EventBatcher(() => 0)
  batcher.add(word(1), LINGER_MS)
  const parcel = batcher.take()
  batcher.add(word(2), LINGER_MS)
  batcher.failed(parcel)
  batcher.failed(parcel)
  expect(batcher.take().bookingEvents).toEqual([word(1), word(2)])
})

it('the event batcher loses no undelivered event, whatever happens to its carriers, and bounds what waits', () => {
  const step = fc.record({
    what: fc.constantFrom('say' as const, 'take' as const, 'arrive' as const, 'fail' as const, 'die' as const),
    waitMs: fc.integer({ min: 0, max: 4_000 }),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      let now = 1_000_000
      let sent = 0
      const batcher = new EventBatcher(() => now)
      const carried: BookingEventBatch[] = []
      const delivered = new Set<string>()
      const arrive = (parcel: BookingEventBatch) => {
        for (const [, key] of parcel.bookingEvents) delivered.add(key)
        batcher.arrived(parcel)
      }
      for (const { what, waitMs } of steps) {
        now += waitMs
        if (what === 'say') batcher.add(word(sent++), LINGER_MS)
        if (what === 'take') carried.push(batcher.take())
        const parcel = what === 'say' || what === 'take' ? undefined : carried.pop()
        if (parcel === undefined) continue
        if (what === 'arrive') arrive(parcel)
        if (what === 'fail') batcher.failed(parcel)
      }
      now += 60_000
      while (delivered.size < sent) {
        const parcel = batcher.take()
        expect(parcel.bookingEvents.length).toBeGreaterThan(0)
        arrive(parcel)
      }
    }),
  )
  const full = new EventBatcher(() => 0)
  for (let index = 0; index < 20_000; index++) full.add(word(index), LINGER_MS)
  let kept = 0
  while (!full.isEmpty) kept += full.take().bookingEvents.length
  expect(kept).toBe(10_000)
})

it('the timers of a request fire once each, no cancelled one, in the order of their times', async () => {
  const timers = new RequestTimers()
  const rung: string[] = []
  timers.set(500, () => rung.push('third'))
  timers.set(5, () => {
    rung.push('first')
    timers.set(5, () => rung.push('second'))
  })
  const cancelled = timers.set(10, () => rung.push('cancelled'))
  cancelled.cancel()
  await new Promise<void>((resolve) => timers.set(510, resolve))
  expect(rung).toEqual(['first', 'second', 'third'])
  cancelled.cancel()
})
