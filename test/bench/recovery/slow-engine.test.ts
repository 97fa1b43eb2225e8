import { describe, expect, it } from 'vitest'
import { slowEngine } from '../../../packages/bench/recovery/slow-engine.ts'

describe('an engine that becomes slow, in virtual time', () => {
  it('an engine that becomes ten times slower is ejected once, and used again when it is as fast as before', () => {
    const alone = slowEngine({ factor: 1, seed: 2, isAbsent: true })
    const { placed, followedS, siblingsP99Ms, shareAfter, ejections, ejectedS, returnedS } = slowEngine({
      factor: 10,
      seed: 2,
    })
    expect(ejections).toBe(1)
    expect(ejectedS).toBeLessThan(20)
    expect(followedS ?? 0).toBeLessThan(3)
    expect(returnedS).toBeGreaterThan(0)
    expect(returnedS).toBeLessThan(4)
    expect(placed).toBeLessThan(7)
    expect(shareAfter).toBeGreaterThan(0.15)
    expect(siblingsP99Ms).toBeLessThan(1.2 * alone.siblingsP99Ms)
  })

  it.each([1, 3])('an engine that becomes %i times slower is not ejected', (factor) => {
    expect(slowEngine({ factor, seed: 3 }).ejections).toBe(0)
  })
})
