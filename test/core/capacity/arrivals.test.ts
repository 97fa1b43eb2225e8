import { describe, expect, it } from 'vitest'
import { Arrivals } from '../../../src/core/capacity/arrivals.ts'
import type { Refusal } from '../../../src/core/contract/refusal.ts'
import { admission } from '../../kit/pool-fixtures.ts'

const START = 1_800_000_000_000
const SLO = { ttftMs: 1_000, ttftMsPer1kTokens: 100, itlMs: null }
const WORK = { prefillS: 0.1, slackS: 1, promptTokens: 640, sequences: 1 }
const REFUSAL: Refusal = { reason: 'overloaded', limit: 'ttft', detail: '', retryAfterMs: 1 }

const open = (): Arrivals => new Arrivals(SLO, START)

describe('Arrivals', () => {
  it('the rate is that of the last minute while it is the higher one', () => {
    const arrivals = open()
    for (let at = 0; at < 600; at++) arrivals.add(at < 540 ? 1 : 10, START + 1000 * at)
    expect(arrivals.rates(START + 600_000 - 1).requestsPerS).toBeCloseTo(10, 0)
  })

  it('the rate is that of five minutes while arrivals fall', () => {
    const arrivals = open()
    for (let at = 0; at < 240; at++) arrivals.add(10, START + 1000 * at)
    expect(arrivals.rates(START + 300_000 - 1).requestsPerS).toBeCloseTo(8, 0)
  })

  it('a new pool has the rate since its start', () => {
    const arrivals = open()
    for (let at = 0; at < 20; at++) arrivals.add(5, START + 1000 * at)
    expect(arrivals.rates(START + 20_000).requestsPerS).toBeCloseTo(5)
  })

  it('a burst at the start counts over ten seconds', () => {
    const arrivals = open()
    arrivals.add(50, START)
    expect(arrivals.rates(START + 1).requestsPerS).toBeCloseTo(5)
  })

  it('a clock that goes back loses no arrival', () => {
    const arrivals = open()
    arrivals.add(1, START + 50_000)
    arrivals.add(1, START)
    expect(arrivals.rates(START + 50_000).requestsPerS).toBeCloseTo(2 / 50)
  })

  it('the work last seen stays known', () => {
    const arrivals = open()
    arrivals.booked([['any', WORK]], START)
    for (let minute = 1; minute < 60; minute++) arrivals.add(1, START + 60_000 * minute)
    const { roles, sampled } = arrivals.rates(START + 3_600_000)
    expect([sampled, roles.get('any')!.mix(256, 64).prefillS]).toEqual([1, 0.1])
  })

  it('a refused request counts unless it comes again or its client set a deadline', () => {
    const arrivals = open()
    const count = (refusal: Partial<Refusal>, changes = {}): void =>
      arrivals.refused({ ...REFUSAL, ...refusal }, admission(changes), START)
    count({})
    count({ mayWait: true })
    count({ mayPanic: true })
    count({ limit: 'deadline' })
    count({ reason: 'unconfigured' })
    count({}, { attempt: 1 })
    count({}, { attempt: 1, second: { kind: 'hedge' } })
    expect(arrivals.rates(START).requestsPerS).toBeCloseTo(0.1)
  })

  it('a minute with refused or late requests is compared with the capacity that was stated in it', () => {
    const arrivals = new Arrivals(SLO, START - 1)
    const minute = (at: number, lateOrRefused: () => void): void => {
      arrivals.checks.stated(10, START + 60_000 * at)
      arrivals.booked([['any', WORK]], START + 60_000 * at)
      lateOrRefused()
    }
    minute(0, () => undefined)
    minute(1, () => arrivals.late(START + 119_999))
    minute(2, () => arrivals.refused(REFUSAL, admission(), START + 179_999))
    arrivals.checks.stated(10, START + 180_000)
    expect(arrivals.checks.error(START + 180_000)).toEqual({ minutes: 3, overstated: 2, understated: 0 })
  })

  it('a minute that began before the pool, or that ended too long ago, is not compared', () => {
    const early = new Arrivals(SLO, START + 1)
    early.checks.stated(10, START + 1)
    early.add(1, START + 1)
    early.checks.stated(10, START + 60_000)
    expect(early.checks.error(START + 60_000)).toBeNull()
    const idle = open()
    idle.checks.stated(10, START)
    idle.add(1, START)
    idle.add(1, START + 300_000)
    idle.checks.stated(10, START + 300_000)
    expect(idle.checks.error(START + 300_000)).toBeNull()
  })

  it('the slack of a prompt is its objective without its prefill, and at least 100 ms', () => {
    expect(open().slackS(5_000, 0.5)).toBeCloseTo(1)
    expect(open().slackS(5_000, 3)).toBe(0.1)
    expect(new Arrivals({ ...SLO, ttftMs: null }, START).slackS(5_000, 3)).toBe(Infinity)
  })
})
