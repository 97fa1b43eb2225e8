import { describe, expect, it } from 'vitest'
import { chance } from '../../../packages/replay/src/replay/chance.ts'
import { IdleLimit } from '../../../src/core/continuation/idle-limit.ts'

describe('GapEstimator', () => {
  it('GapEstimator has the configured limit before it has seen 200 reads, and never a longer one', () => {
    const gaps = new IdleLimit()
    for (let at = 0; at < 199; at++) gaps.add(20)
    expect(gaps.limitMs(60_000)).toBe(60_000)
    gaps.add(20)
    expect(gaps.limitMs(60_000)).toBe(5_000)
    expect(gaps.limitMs(1_000)).toBe(1_000)
  })

  it('GapEstimator derives no limit where none is configured', () => {
    const gaps = new IdleLimit()
    for (let at = 0; at < 500; at++) gaps.add(20)
    expect(gaps.limitMs(0)).toBe(0)
  })

  it('GapEstimator is about twenty times the 99th percentile, and follows an engine that becomes slower', () => {
    const gaps = new IdleLimit()
    const random = chance(7)
    // Exponential gaps with a mean of 100 ms: p99 is 460 ms.
    const draw = (mean: number): number => -mean * Math.log(1 - random())
    for (let at = 0; at < 5_000; at++) gaps.add(draw(100))
    expect(gaps.limitMs(600_000) / 20).toBeGreaterThan(300)
    expect(gaps.limitMs(600_000) / 20).toBeLessThan(800)
    for (let at = 0; at < 2_000; at++) gaps.add(draw(1_000))
    expect(gaps.limitMs(600_000) / 20).toBeGreaterThan(3_000)
  })
})
