import { describe, expect, it } from 'vitest'
import type { AttemptFailure } from '../../../src/core/contract/outcome.ts'
import type { Placement } from '../../../src/core/contract/placement.ts'
import type { FailedAttempt } from '../../../src/origin/attempt-context.ts'
import { FailedAttempts } from '../../../src/origin/retry/failed-attempts.ts'

const SPLIT: Placement = { kind: 'split', prefill: 'p', decode: 'd', runnersUp: [] }
const whole = (engine: string): Placement => ({ kind: 'whole', engine, runnersUp: [] })

const failedOn = (engine: string, failure: AttemptFailure, placement = whole(engine)): FailedAttempt =>
  ({
    outcome: { engine: { id: engine }, failure, status: null },
    placed: { route: { cluster: { id: 'near' } }, placement },
  }) as unknown as FailedAttempt

function afterAll(...attempts: readonly FailedAttempt[]): FailedAttempts {
  const failed = new FailedAttempts(new Map())
  for (const one of attempts) failed.add(one)
  return failed
}

describe('the next attempt', () => {
  it('after none is the first', () => {
    expect(afterAll().history()).toEqual({
      attempt: 0,
      skipsRetryBudget: false,
      failedLegs: [],
      avoid: new Map(),
      away: new Set(),
      beyondContextTokens: null,
    })
  })

  it('the next attempt avoids all engines that failed, and those of its beginning', () => {
    const failed = new FailedAttempts(new Map([['near', ['lacking']]]))
    failed.add(failedOn('a', 'status_5xx'))
    failed.add(failedOn('b', 'status_5xx'))
    expect(failed.history().avoid).toEqual(new Map([['near', ['lacking', 'a', 'b']]]))
  })

  it('the next attempt is no retry if every engine was full', () => {
    expect(afterAll(failedOn('a', 'busy'), failedOn('b', 'busy')).history().skipsRetryBudget).toBe(true)
    expect(afterAll(failedOn('a', 'busy'), failedOn('b', 'status_5xx')).history().skipsRetryBudget).toBe(false)
  })

  it('the next attempt knows which legs failed before the final one', () => {
    expect(afterAll(failedOn('p', 'status_5xx', SPLIT)).history().failedLegs).toEqual(['prefill'])
    expect(afterAll(failedOn('d', 'status_5xx', SPLIT)).history().failedLegs).toBeNull()
  })

  it('the next attempt is too late after the limit of the whole answer, whose engine is not avoided', () => {
    const failed = afterAll(failedOn('a', 'answer_timeout'))
    expect([failed.isTooLate, failed.history().avoid.size]).toEqual([true, 0])
  })
})

describe('a decode engine that failed on the KV data of a prefill engine', () => {
  it('a decode engine that failed on the KV data of a prefill engine is tried again without that prefill engine, once', () => {
    const failed = afterAll(failedOn('d', 'status_5xx', SPLIT))
    expect(failed.shiftBlame()).toBe(true)
    expect(failed.history().avoid).toEqual(new Map([['near', ['p']]]))
    failed.add(failedOn('d', 'status_5xx', { ...SPLIT, prefill: 'q' }))
    expect(failed.shiftBlame()).toBe(false)
  })

  it.each([
    ['its prefill engine failed', failedOn('p', 'status_5xx', SPLIT)],
    ['it was out of reach', failedOn('d', 'connect', SPLIT)],
    ['the request was not split', failedOn('d', 'status_5xx')],
  ])('a decode engine that failed on the KV data of a prefill engine is to blame alone if %s', (_, one) => {
    expect(afterAll(one).shiftBlame()).toBe(false)
  })
})
