import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RetryBudget } from '../../../src/core/pool/retry-budget.ts'

describe('RetryBudget', () => {
  it('RetryBudget never allows more than its share and its floor within its window', () => {
    fc.assert(
      fc.property(fc.array(fc.record({ retry: fc.boolean(), waitMs: fc.nat(900) }), { maxLength: 300 }), (steps) => {
        const settings = { share: 0.2, minPerS: 0.5 }
        const budget = new RetryBudget()
        const requests: number[] = []
        const retries: number[] = []
        let now = 0
        for (const step of steps) {
          now += step.waitMs
          const recent = (times: number[]) => times.filter((time) => time > now - 10_000).length
          if (!step.retry) {
            budget.request(now)
            requests.push(now)
          } else if (budget.allows(now, settings)) {
            budget.retry(now)
            retries.push(now)
            expect(recent(retries)).toBeLessThanOrEqual(0.2 * recent(requests) + 5)
          } else {
            expect(recent(retries) + 1).toBeGreaterThan(0.2 * recent(requests) + 5)
          }
        }
      }),
    )
  })
})
