import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { SlidingCount } from '../../src/core/sliding-count.ts'

describe('SlidingCount', () => {
  it('SlidingCount equals the count of a list of times', () => {
    fc.assert(
      fc.property(fc.array(fc.record({ add: fc.boolean(), waitMs: fc.nat(300) }), { maxLength: 200 }), (steps) => {
        const count = new SlidingCount(1_000)
        const times: number[] = []
        let now = 0
        for (const step of steps) {
          now += step.waitMs
          if (step.add) {
            count.add(now)
            times.push(now)
          }
          expect(count.count(now)).toBe(times.filter((time) => time > now - 1_000).length)
        }
      }),
    )
  })

  it('SlidingCount tolerates a clock that goes backwards', () => {
    const count = new SlidingCount(1_000)
    count.add(5_000)
    count.add(4_000)
    expect(count.count(5_500)).toBe(2)
    expect(count.count(6_000)).toBe(0)
  })
})
