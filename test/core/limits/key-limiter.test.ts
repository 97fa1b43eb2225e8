import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KeyLimiter } from '../../../src/core/limits/key-limiter.ts'
import type { KeyLimits } from '../../../src/core/limits/key-limits.ts'

const FREE: KeyLimits = { requestsPerMin: null, tokensPerMin: null, tokensPerDay: null, concurrent: null }
/** A noon in UTC. */
const NOON = 20_000 * 86_400_000 + 43_200_000

function limited(limits: Partial<KeyLimits>) {
  const limiter = new KeyLimiter()
  let ids = 0
  const reserve = (now: number, tokens = 10, id = `r${ids++}`, lease: { leaseMs?: number } = {}) => ({
    id,
    ...limiter.reserve({ key: 'k', id, limits: { ...FREE, ...limits }, tokens, ...lease }, now),
  })
  const settle = (id: string, tokens: number | null, now: number) => limiter.settle({ key: 'k', id, tokens }, now)
  return { limiter, reserve, settle }
}

describe('requests per minute', () => {
  it('requests per minute admits as many as the limit, and the next one after a minute', () => {
    const { reserve } = limited({ requestsPerMin: 3 })
    for (let at = 0; at < 3; at++) expect(reserve(NOON + at * 100).exceeded).toBeNull()
    const { exceeded, retryAfterMs } = reserve(NOON + 500)
    expect(exceeded).toBe('requests_per_min')
    expect(reserve(NOON + 500 + retryAfterMs - 1).exceeded).toBe('requests_per_min')
    expect(reserve(NOON + 500 + retryAfterMs).exceeded).toBeNull()
    expect(retryAfterMs).toBeGreaterThanOrEqual(59_500)
    expect(retryAfterMs).toBeLessThanOrEqual(61_000)
  })

  it('reports limit, remaining requests and the time until all are free', () => {
    const { reserve } = limited({ requestsPerMin: 5 })
    reserve(NOON)
    const { requests, tokens } = reserve(NOON + 10_000)
    expect(requests).toEqual({ limit: 5, remaining: 3, resetMs: 61_000 })
    expect(tokens).toBeNull()
  })

  it('requests per minute keeps keys apart', () => {
    const limiter = new KeyLimiter()
    const ask = (key: string) =>
      limiter.reserve({ key, id: `${key}1`, limits: { ...FREE, requestsPerMin: 1 }, tokens: 0 }, NOON).exceeded
    expect([ask('a'), ask('b')]).toEqual([null, null])
  })

  it('requests per minute counts a repeated reservation of one request once', () => {
    const { reserve, limiter } = limited({ requestsPerMin: 2 })
    for (let at = 0; at < 5; at++) expect(reserve(NOON, 1, 'same').exceeded).toBeNull()
    expect(reserve(NOON).requests).toMatchObject({ remaining: 0 })
    expect(limiter.running('k')).toBe(2)
  })
})

describe('tokens', () => {
  it('tokens are reserved by the estimate and settled at the end', () => {
    const { reserve, settle } = limited({ tokensPerMin: 100 })
    const first = reserve(NOON, 80)
    expect(reserve(NOON, 30).exceeded).toBe('tokens_per_min')
    settle(first.id, 50, NOON + 100)
    expect(reserve(NOON + 200, 50).exceeded).toBeNull()
    expect(reserve(NOON + 200, 1).exceeded).toBe('tokens_per_min')
  })

  it('beyond the estimate count from the end of the request', () => {
    const { reserve, settle } = limited({ tokensPerMin: 100 })
    const first = reserve(NOON, 10)
    settle(first.id, 100, NOON + 30_000)
    expect(reserve(NOON + 62_000, 20).exceeded).toBe('tokens_per_min')
    expect(reserve(NOON + 92_000, 20).exceeded).toBeNull()
  })

  it('tokens of a request without usage stay at the estimate', () => {
    const { reserve, settle } = limited({ tokensPerMin: 100 })
    settle(reserve(NOON, 60).id, null, NOON)
    expect(reserve(NOON, 60).exceeded).toBe('tokens_per_min')
  })

  it('tokens of a request above the whole limit are admitted alone', () => {
    const { reserve } = limited({ tokensPerMin: 100 })
    expect(reserve(NOON, 1_000).exceeded).toBeNull()
    expect(reserve(NOON, 1).exceeded).toBe('tokens_per_min')
  })

  it('per day are free again at midnight in UTC', () => {
    const { reserve } = limited({ tokensPerDay: 100 })
    reserve(NOON, 100)
    const { exceeded, retryAfterMs } = reserve(NOON + 1_000, 1)
    expect([exceeded, retryAfterMs]).toEqual(['tokens_per_day', 43_199_000])
    expect(reserve(NOON + 43_200_000, 1).exceeded).toBeNull()
  })
})

describe('concurrent requests', () => {
  it('concurrent requests are free when they end, once', () => {
    const { reserve, settle, limiter } = limited({ concurrent: 2 })
    const first = reserve(NOON)
    reserve(NOON)
    expect(reserve(NOON).exceeded).toBe('concurrent')
    settle(first.id, null, NOON)
    settle(first.id, null, NOON)
    expect(reserve(NOON).exceeded).toBeNull()
    expect(reserve(NOON).exceeded).toBe('concurrent')
    expect(limiter.running('k')).toBe(2)
  })

  it('concurrent requests of a gateway that has ended lapse after an hour', () => {
    const { reserve } = limited({ concurrent: 1 })
    reserve(NOON)
    expect(reserve(NOON + 3_599_999).exceeded).toBe('concurrent')
    expect(reserve(NOON + 3_600_000).exceeded).toBeNull()
  })

  it('concurrent requests with a lease lapse after it, unless they are renewed', () => {
    const { reserve, limiter } = limited({ concurrent: 2 })
    const lease = { leaseMs: 30_000 }
    for (const id of ['runs', 'ended']) reserve(NOON, 10, id, lease)
    limiter.renew({ key: 'k', id: 'runs' }, NOON + 20_000)
    expect(reserve(NOON + 29_999).exceeded).toBe('concurrent')
    expect(reserve(NOON + 30_000, 10, 'next', lease).exceeded).toBeNull()
    expect(['runs', 'ended'].map((id) => limiter.isRunning({ key: 'k', id }))).toEqual([true, false])
    expect(reserve(NOON + 49_999).exceeded).toBe('concurrent')
    expect(reserve(NOON + 50_000).exceeded).toBeNull()
  })

  it('concurrent requests that are refused cost nothing of the other limits', () => {
    const { reserve, settle } = limited({ concurrent: 1, requestsPerMin: 2, tokensPerMin: 100 })
    const first = reserve(NOON, 10)
    for (let at = 0; at < 10; at++) expect(reserve(NOON, 10).exceeded).toBe('concurrent')
    settle(first.id, 10, NOON)
    expect(reserve(NOON, 10)).toMatchObject({ exceeded: null, requests: { remaining: 0 }, tokens: { remaining: 80 } })
  })
})

it('a limiter of keys forgets keys of which nothing is counted, and no others', () => {
  const limiter = new KeyLimiter()
  const limits = { ...FREE, requestsPerMin: 1 }
  const ask = (key: string, now: number, tokens = 0) => limiter.reserve({ key, id: key, limits, tokens }, now).exceeded
  for (let at = 0; at < 5_000; at++) {
    ask(`gone${at}`, NOON)
    limiter.settle({ key: `gone${at}`, id: `gone${at}`, tokens: null }, NOON)
  }
  ask('runs', NOON)
  ask('used today', NOON, 7)
  limiter.settle({ key: 'used today', id: 'used today', tokens: null }, NOON)
  for (let at = 0; at < 20_000; at++) ask(`new${at}`, NOON + 62_000)
  expect(limiter.size).toBe(20_002)
  expect(limiter.running('runs')).toBe(1)
  expect(limiter.dayUse('used today')?.tokens).toBe(7)
})

it('a clock that is set back by an hour frees nothing and blocks nobody for longer', () => {
  const { reserve } = limited({ requestsPerMin: 1 })
  reserve(NOON)
  expect(reserve(NOON - 3_600_000).exceeded).toBe('requests_per_min')
  expect(reserve(NOON + 61_000).exceeded).toBeNull()
})

it('a limiter of keys never admits more than the limits, for any interleaving of requests and ends', () => {
  const step = fc.record({ afterMs: fc.nat(20_000), tokens: fc.nat(60), ends: fc.boolean(), actual: fc.nat(60) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const limits = { requestsPerMin: 5, tokensPerMin: 100, concurrent: 3 }
      const { limiter, reserve, settle } = limited(limits)
      const admitted: { readonly at: number; readonly id: string; tokens: number }[] = []
      const open: (typeof admitted)[number][] = []
      let now = NOON
      for (const { afterMs, tokens, ends, actual } of steps) {
        now += afterMs
        const oldest = open[0]
        if (ends && oldest !== undefined) {
          open.shift()
          oldest.tokens = Math.min(oldest.tokens, actual)
          settle(oldest.id, oldest.tokens, now)
          continue
        }
        const { exceeded, id } = reserve(now, tokens)
        if (exceeded !== null) continue
        const one = { at: now, id, tokens }
        admitted.push(one)
        open.push(one)
        const lastMinute = admitted.filter(({ at }) => at > now - 60_000)
        expect(lastMinute.length).toBeLessThanOrEqual(limits.requestsPerMin)
        expect(lastMinute.reduce((sum, each) => sum + each.tokens, 0)).toBeLessThanOrEqual(limits.tokensPerMin)
        expect(limiter.running('k')).toBeLessThanOrEqual(limits.concurrent)
      }
      for (const { id } of open) settle(id, null, now)
      expect(limiter.running('k')).toBe(0)
    }),
  )
})
