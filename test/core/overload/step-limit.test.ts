import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PREFILL_WINDOW_MS, PrefillShare } from '../../../src/core/overload/prefill-share.ts'
import { StepLimit } from '../../../src/core/overload/step-limit.ts'

const limited = (targetMs = 100): StepLimit => {
  const limit = new StepLimit()
  limit.configure(targetMs)
  return limit
}

describe('the limit of the time between tokens', () => {
  it('the limit of the time between tokens is infinite without a target', () => {
    const limit = new StepLimit()
    limit.learn(1e6, 0)
    expect(limit.limitMs(0)).toBe(Infinity)
  })

  it('the limit of the time between tokens falls while responses are slower than the target, not below 30 % of it', () => {
    const limit = limited()
    for (let at = 0; at < 20; at++) {
      limit.refused(at)
      limit.learn(150, at)
    }
    expect(limit.limitMs(20)).toBeLessThan(90)
    for (let at = 20; at < 2_000; at++) {
      limit.refused(at)
      limit.learn(150, at)
    }
    expect(limit.limitMs(2_000)).toBeCloseTo(30)
  })

  it('rises while responses are fast and requests are refused', () => {
    const limit = limited()
    for (let at = 0; at < 500; at++) {
      limit.refused(at)
      limit.learn(150, at)
    }
    const low = limit.limitMs(500)
    for (let at = 500; at < 600; at++) {
      limit.refused(at)
      limit.learn(20, at)
    }
    expect(limit.limitMs(600)).toBeGreaterThan(low)
  })

  it('the limit of the time between tokens returns to the target when it refuses nothing', () => {
    const limit = limited()
    for (let at = 0; at < 1_000; at++) {
      limit.refused(at)
      limit.learn(150, at)
    }
    expect(limit.limitMs(61_000)).toBeGreaterThan(95)
  })

  it('the limit of the time between tokens stays between its bounds for any samples, and is a number', () => {
    const step = fc.record({ itlMs: fc.double({ min: -1, max: 1e9 }), afterMs: fc.nat(100_000), refuses: fc.boolean() })
    fc.assert(
      fc.property(fc.array(step), fc.integer({ min: 1, max: 10_000 }), (steps, targetMs) => {
        const limit = limited(targetMs)
        let now = 0
        for (const { itlMs, afterMs, refuses } of steps) {
          now += afterMs
          if (refuses) limit.refused(now)
          limit.learn(itlMs, now)
          expect(limit.limitMs(now)).toBeGreaterThanOrEqual(0.3 * targetMs - 1e-6)
          expect(limit.limitMs(now)).toBeLessThanOrEqual(targetMs + 1e-6)
        }
      }),
    )
  })
})

describe('the work of prefills', () => {
  it('the work of prefills is the share of the time that they take', () => {
    const work = new PrefillShare()
    for (let at = 0; at < 4 * PREFILL_WINDOW_MS; at += 1_000) work.add(0.5, at)
    expect(work.share(4 * PREFILL_WINDOW_MS)).toBeCloseTo(0.5, 1)
    expect(work.share(8 * PREFILL_WINDOW_MS)).toBeLessThan(0.02)
  })

  it('the work of prefills is known of a new engine after seconds, in which a burst is no load', () => {
    const busy = new PrefillShare()
    for (let at = 0; at <= 8_000; at += 500) busy.add(0.5, at)
    expect(busy.share(8_000)).toBeCloseTo(1, 0)
    const burst = new PrefillShare()
    burst.add(2, 0)
    expect(burst.share(0)).toBeLessThan(0.6)
  })

  it('the work of prefills is not lengthened by a clock that jumps back, and never below nothing', () => {
    const work = new PrefillShare()
    work.add(4, 3_600_000)
    expect(work.share(0)).toBe(work.share(3_600_000))
    work.add(-9, 3_600_000)
    expect(work.share(3_600_000)).toBe(0)
  })
})
