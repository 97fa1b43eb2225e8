import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Arrivals } from '../../../src/core/capacity/arrivals.ts'
import type { EnginePace } from '../../../src/core/capacity/engine-rate.ts'
import { roleCapacity } from '../../../src/core/capacity/role-capacity.ts'
import type { RoleWork } from '../../../src/core/capacity/request-mix.ts'
import type { RoleCapacity } from '../../../src/core/contract/pool-capacity.ts'
import { decodeCostModelAt } from '../../../src/core/latency/decode-cost-model.ts'

const START = 1_800_000_000_000
const WINDOW_MS = 300_000
const BLOCK_TOKENS = 64

const engines = fc.array(
  fc.record<EnginePace>({
    step: fc.double({ min: -1, max: 1, noNaN: true }).map((pace) => decodeCostModelAt(pace, BLOCK_TOKENS)),
    places: fc.oneof(fc.constant(Infinity), fc.integer({ min: 1, max: 256 })),
    blocks: fc.oneof(fc.constant(Infinity), fc.integer({ min: 10, max: 100_000 })),
  }),
  { maxLength: 5 },
)
const work = fc.record<RoleWork>({
  prefillS: fc.double({ min: 0.001, max: 5, noNaN: true }),
  slackS: fc.oneof(fc.constant(Infinity), fc.double({ min: 0.1, max: 10, noNaN: true })),
  promptTokens: fc.integer({ min: 1, max: 100_000 }),
  sequences: fc.integer({ min: 0, max: 4 }),
})
const times = fc.array(fc.integer({ min: 0, max: 600_000 }), { maxLength: 200 })
const pool = fc.record({
  engines,
  work,
  itlS: fc.oneof(fc.constant(Infinity), fc.double({ min: 0.001, max: 0.5, noNaN: true })),
})
type Pool = typeof pool extends fc.Arbitrary<infer Of> ? Of : never

interface Traffic {
  readonly times: readonly number[]
  readonly waiting?: number
}

/** Capacity of a pool whose requests arrived at these times after its start. */
function capacityAt(afterMs: number, { times: given, waiting = 0 }: Traffic, of: Pool): RoleCapacity {
  const arrivals = new Arrivals({ ttftMs: 1_000, ttftMsPer1kTokens: null, itlMs: null }, START)
  for (const time of given.filter((one) => one <= afterMs).sort((a, b) => a - b))
    arrivals.booked([['any', of.work]], START + time)
  const { requestsPerS, slopePerS2, roles } = arrivals.rates(START + afterMs)
  return roleCapacity({
    role: 'any',
    requestsPerS,
    slopePerS2,
    mix: roles.get('any')?.mix(256, BLOCK_TOKENS) ?? null,
    engines: of.engines,
    joining: { step: decodeCostModelAt(0, BLOCK_TOKENS), places: Infinity, blocks: Infinity },
    running: 0,
    waiting,
    itlS: of.itlS,
  })
}

it('further arrivals never lower the needed replicas, and never raise the spare rate', () => {
  fc.assert(
    fc.property(pool, times, times, fc.nat(600_000), fc.nat(50), (of, some, further, afterMs, waiting) => {
      // Both have seen the same work.
      const few = capacityAt(afterMs, { times: [0, ...some] }, of)
      const many = capacityAt(afterMs, { times: [0, ...some, ...further], waiting }, of)
      // Means of different numbers of requests differ in the last digit.
      expect(many.replicas).toBeGreaterThanOrEqual(Math.ceil(few.neededEngines * (1 - 1e-6)))
      expect(many.neededEngines).toBeGreaterThanOrEqual(few.neededEngines * (1 - 1e-6))
      expect(many.spareRequestsPerS).toBeLessThanOrEqual(few.spareRequestsPerS! + 1e-6)
    }),
  )
})

it('a pool with a request in the last minutes needs at least one engine', () => {
  fc.assert(
    fc.property(pool, times, fc.nat(WINDOW_MS - 10_000), (of, some, agoMs) => {
      const capacity = capacityAt(600_000, { times: [...some, 600_000 - agoMs] }, of)
      expect(capacity.replicas).toBeGreaterThanOrEqual(1)
      expect(Number.isFinite(capacity.neededEngines)).toBe(true)
      expect(Number.isFinite(capacity.spareRequestsPerS)).toBe(true)
    }),
  )
})

it('a waiting request needs an engine, also where none was ever seen', () => {
  fc.assert(
    fc.property(pool, fc.integer({ min: 1, max: 50 }), (of, waiting) => {
      expect(capacityAt(0, { times: [], waiting }, of).replicas).toBe(1)
    }),
  )
})

it('without traffic the capacity stays as it is, with the work last seen', () => {
  fc.assert(
    fc.property(pool, times, fc.nat(3_600_000), (of, some, laterMs) => {
      const idle = capacityAt(600_000 + WINDOW_MS, { times: some }, of)
      expect(idle).toMatchObject({ replicas: 0, neededEngines: 0, requestsPerS: 0, exhaustionS: null })
      expect(idle.spareRequestsPerS === null).toBe(some.length === 0)
      expect(capacityAt(600_000 + WINDOW_MS + laterMs, { times: some }, of)).toEqual(idle)
    }),
  )
})
