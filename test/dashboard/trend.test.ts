import { describe, expect, it } from 'vitest'
import { noTrend, rejectionReasons, type Trend, trended } from '../../src/dashboard/trend.ts'
import type { Engine, View } from '../../src/dashboard/wire.ts'

const engine = (id: string, more: Partial<Engine> = {}): Engine => ({
  id,
  role: 'any',
  available: true,
  requests_total: 0,
  failures_total: 0,
  ...more,
})

const view = (at: number, engines: readonly Engine[], startedAt = 1): View => ({
  version: '0',
  config_version: 1,
  started_at: startedAt,
  draining: false,
  at,
  pools: [
    {
      cluster: 'c',
      region: null,
      model: 'm',
      aliases: [],
      policy: 'predicted',
      reachable: true,
      bookings: 0,
      engines,
    },
  ],
  decisions: [],
})

/** One view a second. */
function over(seconds: number, enginesAt: (second: number) => readonly Engine[]): Trend {
  let trend = noTrend
  for (let second = 0; second <= seconds; second += 1) trend = trended(trend, view(second * 1000, enginesAt(second)))
  return trend
}

const now = ({ points }: Trend) => points.at(-1)!

describe('the trend of the dashboard', () => {
  it.each([1, 20, 500])('measures %d requests/s, without a decision in the view', (rate) => {
    const trend = over(60, (second) => [engine('a', { requests_total: rate * second, recent_ttft_ms: [10, 20, 30] })])
    expect(now(trend)).toMatchObject({ requestsPerS: rate, ttftP50Ms: 20, ttftP99Ms: 30 })
  })

  it('measures output tokens and rejections by the totals of the gateway, and names the reasons', () => {
    let trend = noTrend
    for (let second = 0; second <= 20; second++) {
      const rejected = { key_wrong: 5, overloaded: 3 * second, rate_limited: second }
      trend = trended(trend, {
        ...view(second * 1000, [engine('a')]),
        traffic: { output_tokens_total: 200 * second, rejected_total: rejected },
      })
    }
    expect(now(trend)).toMatchObject({ outputTokensPerS: 200, rejectedPerS: 4 })
    expect(rejectionReasons(trend)).toEqual(['overloaded', 'rate limited'])
  })

  it('leaves them out for a gateway that does not send totals', () => {
    expect(now(over(20, () => [engine('a')]))).toMatchObject({ outputTokensPerS: null, rejectedPerS: null })
  })

  it('counts a split request once, and failures of both legs', () => {
    const trend = over(20, (second) => [
      engine('p', { role: 'prefill', requests_total: 4 * second, failures_total: second }),
      engine('d', { role: 'decode', requests_total: 4 * second }),
    ])
    expect(now(trend)).toMatchObject({ requestsPerS: 4, failureShare: 1 / 8 })
  })

  it('covers the last 10 s, so that an old failure disappears', () => {
    const failing = (until: number) =>
      over(until, (second) => [engine('a', { requests_total: 10 * second, failures_total: Math.min(10, 10 * second) })])
    expect(now(failing(5)).failureShare).toBeGreaterThan(0)
    expect(now(failing(30)).failureShare).toBe(0)
  })

  it('keeps 15 minutes in at most one point per 5 s', () => {
    const { points, marks } = over(2000, (second) => [engine('a', { requests_total: second })])
    expect(points.length).toBeGreaterThan(170)
    expect(points.length).toBeLessThanOrEqual(182)
    expect(points.at(-1)!.at - points[0]!.at).toBeLessThanOrEqual(15 * 60_000)
    expect(marks.length).toBeLessThan(15)
  })

  it('shows no rate after a restart of the gateway, of an object or of an engine until it is known', () => {
    const before = over(20, (second) => [engine('a', { requests_total: 100 * second })])
    const restarted = trended(before, view(21_000, [engine('a', { requests_total: 1 })], 2))
    expect(now(restarted).requestsPerS).toBe(null)
    const lost = trended(before, view(21_000, [engine('a', { requests_total: 1 })]))
    expect(now(lost).requestsPerS).toBe(0)
  })

  it('leaves unknown figures null', () => {
    expect(now(over(0, () => []))).toEqual({
      at: 0,
      requestsPerS: null,
      failureShare: null,
      outputTokensPerS: null,
      rejectedPerS: null,
      ttftP50Ms: null,
      ttftP95Ms: null,
      ttftP99Ms: null,
      queueS: null,
      kvUsage: null,
    })
  })
})
