import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LatePrefills } from '../../../src/core/latency/late-prefills.ts'

/** 100 ms for 1,000 tokens. */
const usual = { fixedS: 0, perTokenS: 1e-4, perPairS: 0 }
const HALF_LIFE_MS = 15_000
const prefill = (times: number, at = 0) => ({ size: { newTokens: 1_000, pairs: 0 }, seconds: times * 0.1, at })
const after = (...all: readonly ReturnType<typeof prefill>[]): LatePrefills => {
  const late = new LatePrefills()
  for (const one of all) late.observe(one, usual)
  return late
}

describe('prefills that are late by a multiple', () => {
  it('prefills that are late by a multiple count as the pace once there are two in a row, by the smaller multiple', () => {
    expect(after(prefill(8)).times(usual, 0)).toBe(1)
    expect(after(prefill(8), prefill(10)).times(usual, 0)).toBeCloseTo(8)
    expect(after(prefill(30), prefill(8), prefill(10)).times(usual, 0)).toBeCloseTo(8)
  })

  it('prefills that are late by a multiple count no more after one in time', () => {
    expect(after(prefill(8), prefill(8), prefill(1)).times(usual, 0)).toBe(1)
    expect(after(prefill(8), prefill(1), prefill(8)).times(usual, 0)).toBe(1)
  })

  it('prefills that are late by less than 2.5 times, or by less than 0.1 s, are usual', () => {
    expect(after(prefill(2.4), prefill(2.4)).times(usual, 0)).toBe(1)
    const short = { size: { newTokens: 10, pairs: 0 }, seconds: 0.09, at: 0 }
    expect(after(short, short).times(usual, 0)).toBe(1)
  })

  it('prefills that are late by a multiple are half as much evidence after 15 s', () => {
    expect(after(prefill(9), prefill(9)).times(usual, HALF_LIFE_MS)).toBeCloseTo(5)
  })

  it('prefills that are late by a multiple raise nothing once the learned pace has followed', () => {
    const learned = { ...usual, perTokenS: 8e-4 }
    const late = after(prefill(8), prefill(8))
    expect(late.times(learned, 0)).toBeCloseTo(1)
    late.forget()
    expect(late.times(usual, 0)).toBe(1)
  })

  it('prefills that are late by a multiple never make an engine faster than usual, nor slower than the last one was', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0.01, max: 100, noNaN: true }), { minLength: 1, maxLength: 10 }),
        fc.integer({ min: 0, max: 120_000 }),
        (all, now) => {
          const times = after(...all.map((one) => prefill(one))).times(usual, now)
          expect(times).toBeGreaterThanOrEqual(1)
          expect(times).toBeLessThanOrEqual(Math.max(1, all.at(-1)! + 1e-9))
        },
      ),
    )
  })
})
