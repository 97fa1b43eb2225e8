import fc from 'fast-check'
import { expect, it } from 'vitest'
import { CapacityChecks } from '../../../src/core/capacity/capacity-checks.ts'

const START = 1_800_000_000_000
const MINUTE_MS = 60_000

interface Minute {
  readonly arrivals: number
  readonly missed: number
  /** Stated every 20 s, requests per minute. null: unknown */
  readonly stated: readonly (number | null)[]
}

/** Checks after minutes that follow each other. */
function checksOf(minutes: readonly Minute[]): CapacityChecks {
  const checks = new CapacityChecks((at) => minutes[(at - START) / MINUTE_MS] ?? null)
  for (const [at, { stated }] of minutes.entries())
    for (const [step, perMinute] of stated.entries())
      checks.stated(perMinute === null ? null : perMinute / 60, START + at * MINUTE_MS + step * (MINUTE_MS / 3))
  checks.stated(null, START + minutes.length * MINUTE_MS)
  return checks
}

const errorOf = (...minutes: readonly Minute[]): unknown => checksOf(minutes).error(START + minutes.length * MINUTE_MS)

const stated = fc.array(fc.option(fc.integer({ min: 0, max: 1_000 })), { maxLength: 3 })
const anyMinute = fc
  .record({ arrivals: fc.nat(1_000), missedShare: fc.double({ min: 0, max: 1, noNaN: true }), stated })
  .map(({ arrivals, missedShare, stated: of }) => ({ arrivals, missed: Math.ceil(missedShare * arrivals), stated: of }))

it('a rule that refuses exactly what exceeds its capacity has no error', () => {
  const minute = fc
    .record({ arrivals: fc.integer({ min: 1, max: 1_000 }), capacity: fc.nat(1_000) })
    .map(({ arrivals, capacity }) => ({
      arrivals,
      missed: Math.max(0, arrivals - capacity),
      stated: [capacity, capacity],
    }))
  fc.assert(
    fc.property(fc.array(minute, { minLength: 1, maxLength: 60 }), (minutes) => {
      expect(errorOf(...minutes)).toEqual({ minutes: minutes.length, overstated: 0, understated: 0 })
    }),
  )
})

it('minutes without requests, or without a statement, have no error', () => {
  fc.assert(
    fc.property(fc.array(anyMinute, { maxLength: 90 }), (minutes) => {
      const silent = minutes.map((minute, at) =>
        at % 2 === 0 ? { ...minute, arrivals: 0, missed: 0 } : { ...minute, stated: [null] },
      )
      expect(errorOf(...silent)).toBeNull()
    }),
  )
})

it('at most an hour counts, each minute once', () => {
  fc.assert(
    fc.property(fc.array(anyMinute, { minLength: 1, maxLength: 200 }), fc.nat(200), (minutes, laterMinutes) => {
      const error = checksOf(minutes).error(START + (minutes.length + laterMinutes) * MINUTE_MS)
      if (error === null) return
      expect(laterMinutes).toBeLessThanOrEqual(60)
      expect(error.minutes).toBeLessThanOrEqual(Math.min(60, minutes.length))
      expect(error.overstated + error.understated).toBeLessThanOrEqual(error.minutes)
    }),
  )
})

it('a minute with room and refused or late requests is overstated, one without room and without them understated', () => {
  expect(errorOf({ arrivals: 100, missed: 2, stated: [200] })).toEqual({ minutes: 1, overstated: 1, understated: 0 })
  expect(errorOf({ arrivals: 100, missed: 1, stated: [200] })).toEqual({ minutes: 1, overstated: 0, understated: 0 })
  expect(errorOf({ arrivals: 100, missed: 0, stated: [50] })).toEqual({ minutes: 1, overstated: 0, understated: 1 })
  expect(errorOf({ arrivals: 100, missed: 50, stated: [50] })).toEqual({ minutes: 1, overstated: 0, understated: 0 })
})

it('a capacity that changes within a minute is right if one of its statements is', () => {
  expect(errorOf({ arrivals: 100, missed: 50, stated: [200, 50] })).toMatchObject({ overstated: 0 })
  expect(errorOf({ arrivals: 100, missed: 0, stated: [50, 200] })).toMatchObject({ understated: 0 })
})

it('a statement is due every ten seconds, also after the clock went back', () => {
  const checks = checksOf([])
  expect([START + 9_999, START + 10_000, START - 10_000].map((now) => checks.isDue(now))).toEqual([false, true, true])
})
