import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Condition } from '../../../../src/core/contract/pool-digest.ts'
import {
  type ConditionState,
  isDown,
  observed,
  type Signs,
  wellSince,
} from '../../../../src/core/pool/condition/engine-condition.ts'

const NONE: Signs = {
  isSilent: false,
  hasFailedTrial: false,
  isOutOfContact: false,
  isFailing: false,
  isFull: false,
  isBehind: false,
}

const after = (...signs: readonly (readonly [now: number, signs: Partial<Signs>])[]): ConditionState => {
  let state = wellSince(0)
  for (const [now, one] of signs) state = observed(state, { ...NONE, ...one }, now)
  return state
}

describe('condition of an engine', () => {
  it.each<[string, Partial<Signs>, Condition]>([
    ['silence', { isSilent: true }, 'suspect'],
    ['silence and a failed trial', { isSilent: true, hasFailedTrial: true }, 'wedged'],
    ['a failed trial while it moves', { hasFailedTrial: true }, 'well'],
    ['no contact', { isOutOfContact: true, isSilent: true, hasFailedTrial: true }, 'unreachable'],
    ['failures', { isFailing: true }, 'faulty'],
    ['full memory for a moment', { isFull: true }, 'well'],
    ['a slow pace for a moment', { isBehind: true }, 'well'],
    ['nothing', {}, 'well'],
  ])('after %s', (_, signs, condition) => {
    expect(after([1, signs]).condition).toBe(condition)
  })

  it('condition of an engine is saturated or slow once the signs have lasted, since their start', () => {
    expect(after([1_000, { isFull: true }], [5_999, { isFull: true }]).condition).toBe('well')
    expect(after([1_000, { isFull: true }], [6_000, { isFull: true }])).toMatchObject({
      condition: 'saturated',
      since: 1_000,
    })
    expect(after([1_000, { isBehind: true }], [6_000, { isBehind: true }]).condition).toBe('slow')
  })

  it('ends saturation only after its signs have been absent for a while', () => {
    const saturated = [[0, { isFull: true }] as const, [5_000, { isFull: true }] as const]
    expect(after(...saturated, [6_000, {}], [15_999, {}]).condition).toBe('saturated')
    expect(after(...saturated, [6_000, {}], [16_000, {}]).condition).toBe('well')
    expect(after(...saturated, [6_000, {}], [7_000, { isFull: true }], [16_500, {}]).condition).toBe('saturated')
  })

  it('condition of an engine stays wedged while it is silent, and ends with the first movement', () => {
    const wedged = [1, { isSilent: true, hasFailedTrial: true }] as const
    expect(after(wedged, [2, { isSilent: true }]).condition).toBe('wedged')
    expect(after(wedged, [2, {}]).condition).toBe('well')
  })

  it('condition of an engine is never down without a sign of its own, whatever came before', () => {
    const flags = fc.record(Object.fromEntries(Object.keys(NONE).map((name) => [name, fc.boolean()])))
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(20_000), flags)), (steps) => {
        let now = 0
        let state = wellSince(0)
        for (const [ms, given] of steps) {
          const signs = given as unknown as Signs
          now += ms
          const before = state
          state = observed(state, signs, now)
          expect(state.since).toBeLessThanOrEqual(now)
          expect(observed(state, signs, now)).toBe(state)
          if (state.condition === 'wedged')
            expect(signs.isSilent && (signs.hasFailedTrial || before.condition === 'wedged')).toBe(true)
          if (isDown(state.condition)) expect(signs.isSilent || signs.isOutOfContact || signs.isFailing).toBe(true)
          // Nothing but a sign keeps it down.
          if (!signs.isSilent && !signs.isOutOfContact && !signs.isFailing) expect(isDown(state.condition)).toBe(false)
        }
      }),
    )
  })
})
