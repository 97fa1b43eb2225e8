import { describe, expect, it } from 'vitest'
import type { Refusal } from '../../../src/core/contract/refusal.ts'
import type { Failure } from '../../../src/failure.ts'
import { failureOfAll } from '../../../src/origin/retry/client-failure.ts'
import type { Exchange } from '../../../src/origin/exchange.ts'

const exchange = { routes: [{ targets: new Map([['a', {}]]) }] } as unknown as Exchange

const failureFor = (refusal: Partial<Refusal>): Failure =>
  failureOfAll(exchange, [], { reason: 'no_engine', detail: 'for operators', retryAfterMs: 0, ...refusal })

describe('the failure for a refusal', () => {
  it.each([
    ['overloaded', 'overloaded', 429],
    ['engines_full', 'engines_full', 429],
    ['retry_budget', 'retry_budget', 503],
    ['role_empty', 'role_empty', 503],
    ['engines_unavailable', 'no_engine', 503],
    ['no_engine', 'no_engine', 503],
    ['unconfigured', 'no_engine', 503],
    ['of_a_later_version' as 'no_engine', 'no_engine', 503],
  ] as const)('%s is %s with status %i', (reason, failure, status) => {
    const { reason: found, shape, cause, retryAfterMs } = failureFor({ reason })
    expect({ found, status: shape.status, retry: shape.retry, cause, retryAfterMs }).toEqual({
      found: failure,
      status,
      retry: true,
      cause: 'for operators',
      retryAfterMs: 1,
    })
  })

  it('the failure for a refusal is not to be retried if the deadline of the request cannot be met', () => {
    expect(failureFor({ reason: 'overloaded', limit: 'deadline' }).shape).toMatchObject({ retry: false, status: 429 })
  })

  it('the failure for a refusal names the role without engines', () => {
    expect(failureFor({ reason: 'role_empty', emptyRole: 'role "decode"' }).message).toContain('role "decode"')
    expect(failureFor({ reason: 'role_empty' }).message).toContain('a role this request needs')
  })
})
