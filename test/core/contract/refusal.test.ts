import { describe, expect, it } from 'vitest'
import { isPoolFull, preferRetryable, type Refusal, type RefusalReason } from '../../../src/core/contract/refusal.ts'

/** All reasons, the one that a retry helps most first. */
const REASONS: readonly RefusalReason[] = [
  'overloaded',
  'engines_full',
  'retry_budget',
  'role_empty',
  'engines_unavailable',
  'no_engine',
  'unconfigured',
]

const refusal = (reason: string): Refusal => ({ reason: reason as RefusalReason, detail: reason, retryAfterMs: 1 })

describe('preferRetryable', () => {
  it('preferRetryable returns the refusal that a retry helps most, in either order', () => {
    for (const [rank, better] of REASONS.entries())
      for (const worse of REASONS.slice(rank + 1)) {
        expect(preferRetryable(refusal(worse), refusal(better)).reason).toBe(better)
        expect(preferRetryable(refusal(better), refusal(worse)).reason).toBe(better)
      }
  })

  it('preferRetryable returns the first of two refusals with the same reason', () => {
    const first = refusal('engines_full')
    expect(preferRetryable(first, refusal('engines_full'))).toBe(first)
    expect(preferRetryable(null, first)).toBe(first)
  })

  it('preferRetryable prefers every listed reason to one of a later version', () => {
    for (const reason of REASONS) {
      expect(preferRetryable(refusal('of_a_later_version'), refusal(reason)).reason).toBe(reason)
      expect(preferRetryable(refusal(reason), refusal('of_a_later_version')).reason).toBe(reason)
    }
  })
})

describe('isPoolFull', () => {
  it('isPoolFull is true for lack of room only', () => {
    expect(REASONS.filter((reason) => isPoolFull(refusal(reason)))).toEqual(['overloaded', 'engines_full'])
    expect(isPoolFull(refusal('of_a_later_version'))).toBe(false)
  })
})
