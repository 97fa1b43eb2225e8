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
    count({}, { hedge: true })
    expect(arrivals.rates(START).requestsPerS).toBeCloseTo(0.1)
  })

  it('the slack of a prompt is its objective without its prefill, and at least 100 ms', () => {
    expect(open().slackS(5_000, 0.5)).toBeCloseTo(1)
    expect(open().slackS(5_000, 3)).toBe(0.1)
    expect(new Arrivals({ ...SLO, ttftMs: null }, START).slackS(5_000, 3)).toBe(Infinity)
  })
})
