import { describe, expect, it } from 'vitest'
import { rateSlope } from '../../../src/core/capacity/rate-slope.ts'
import { chance } from '../../../packages/replay/src/replay/chance.ts'

describe('the slope of a rate', () => {
  it('a steady rise has its slope, in events per second per second', () => {
    const counts = Array.from({ length: 29 }, (_, at) => 100 + 20 * at)
    expect(rateSlope(counts, 10)).toBeCloseTo(0.2)
  })

  it('a fall has no slope', () => {
    expect(rateSlope([90, 80, 70, 60, 50, 40, 30], 10)).toBe(0)
  })

  it('few counts have no slope', () => {
    expect(rateSlope([0, 100, 200, 300, 400], 10)).toBe(0)
  })

  it('steady arrivals seldom have a slope', () => {
    const random = chance(1)
    let rising = 0
    for (let round = 0; round < 1_000; round++) {
      const counts = Array.from({ length: 29 }, () => {
        let count = 0
        for (let draw = 0; draw < 200; draw++) count += Number(random() < 0.1)
        return count
      })
      if (rateSlope(counts, 10) > 0) rising += 1
    }
    expect(rising).toBeLessThan(60)
  })
})
