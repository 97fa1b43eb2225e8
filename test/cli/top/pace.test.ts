import { describe, expect, it } from 'vitest'
import { Pace } from '../../../src/cli/top/pace.ts'
import { engineOf, poolOf, viewOf } from './views.ts'

/** Rate of engine `a` after samples of [seconds, requests, failures, count at restore]. */
function after(...samples: readonly (readonly [s: number, requests: number, failures?: number, before?: number])[]) {
  const pace = new Pace()
  for (const [s, requests, failures = 0, before = 0] of samples) {
    const engine = engineOf('a', {
      requests_total: requests,
      failures_total: failures,
      counted_before: { requests: before, failures: 0 },
    })
    pace.record(viewOf([poolOf([engine], { at: s * 1000 })]))
  }
  return pace.of('paris', 'qwen', 'a')
}

describe('the request rate of an engine', () => {
  it('the request rate of an engine is null after one view or two equal ones', () => {
    expect(after([5, 100])).toBeNull()
    expect(after([5, 100], [5, 100])).toBeNull()
  })

  it('the request rate of an engine is the increase of the totals divided by the gateway’s elapsed time', () => {
    expect(after([5, 100, 1], [7, 130, 3])).toEqual({ requestsPerS: 15, failures: 2, overS: 2 })
  })

  it('the request rate of an engine uses the last ten seconds, or the last earlier view if there is no newer one', () => {
    expect(after([0, 0], [2, 1000], [11, 1000], [12, 1010])).toEqual({ requestsPerS: 1, failures: 0, overS: 10 })
    expect(after([0, 0], [60, 120])).toEqual({ requestsPerS: 2, failures: 0, overS: 60 })
    expect(after([0, 0], [60, 120], [120, 120])).toEqual({ requestsPerS: 0, failures: 0, overS: 60 })
  })

  it('the request rate of an engine restarts after an object was restored with a lower count', () => {
    expect(after([0, 500], [1, 400])).toBeNull()
    // The snapshot had 450: the count since then is 3, not -47.
    expect(after([0, 500, 0, 0], [1, 451, 0, 450], [2, 454, 0, 450])).toEqual({
      requestsPerS: 3,
      failures: 0,
      overS: 1,
    })
  })

  it('the request rate of an engine continues after an object was out of reach, and ends when its engine is removed', () => {
    const pace = new Pace()
    const known = (requests: number, at: number) =>
      viewOf([poolOf([engineOf('a', { requests_total: requests })], { at })])
    pace.record(known(0, 1_000))
    pace.record(
      viewOf([
        {
          ...poolOf([{ id: 'a', role: 'any', available: null }]),
          reachable: false,
          bookings: null,
          at: undefined,
        } as never,
      ]),
    )
    pace.record(known(30, 4_000))
    expect(pace.of('paris', 'qwen', 'a')?.requestsPerS).toBe(10)
    pace.record(viewOf([poolOf([engineOf('b')])]))
    pace.record(known(60, 5_000))
    expect(pace.of('paris', 'qwen', 'a')).toBeNull()
  })
})
