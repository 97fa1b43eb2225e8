import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FallbackLimiter } from '../../src/platform/fallback-limiter.ts'
import { KeyLimiter } from '../../src/core/limits/key-limiter.ts'
import type { KeyLimits, LimitAnswer, LimitedRequest, Settlement } from '../../src/core/limits/key-limits.ts'
import { shareOf } from '../../src/core/limits/limit-share.ts'

const FREE: KeyLimits = { requestsPerMin: null, tokensPerMin: null, tokensPerDay: null, concurrent: null }
const NOON = 20_000 * 86_400_000 + 43_200_000

const noBudgets = async (): Promise<never> => {
  throw new Error('no key has a budget')
}

class Carrier {
  now = NOON
  limiter = new KeyLimiter()
  isUp = true
  calls = 0
  lostAt = -Infinity
  readonly lines: string[] = []
  /** Running requests by gateway, which adds them again when the carrier recovers. */
  readonly #running = new Map<string, LimitedRequest>()

  fail(): void {
    this.isUp = false
  }

  /** The carrier restarts without state. */
  restart(): void {
    this.isUp = true
    this.lostAt = this.now
    this.limiter = new KeyLimiter()
    for (const one of this.#running.values()) this.limiter.reserve({ ...one, limits: FREE }, this.now)
  }

  gateways(count: number, fallback: 'share' | 'open' | 'closed' = 'share'): FallbackLimiter[] {
    const reach = (): void => {
      this.calls += 1
      if (!this.isUp) throw new Error('not connected')
    }
    return Array.from({ length: count }, (_, index) => {
      const carrier = {
        reserve: (request: LimitedRequest) => {
          reach()
          const answer = this.limiter.reserve(request, this.now)
          if (answer.exceeded === null) this.#running.set(request.id, request)
          return answer
        },
        adopt: (request: LimitedRequest) => {
          this.#running.set(request.id, request)
          // The next heartbeat of its gateway adds it again.
          if (this.isUp) this.limiter.reserve({ ...request, limits: FREE }, this.now)
        },
        settle: (settlement: Settlement) => {
          this.#running.delete(settlement.id)
          if (this.isUp) this.limiter.settle(settlement, this.now)
        },
        charge: noBudgets,
      }
      return new FallbackLimiter(carrier, {
        now: () => this.now,
        log: { info: (event) => void this.lines.push(event), warn: (event) => void this.lines.push(event) },
        limitMs: 10_000,
        fallback: () => fallback,
        share: () => ({ count, index }),
        lostAt: () => (this.isUp ? this.lostAt : this.now),
      })
    })
  }
}

/** `RUNS=20000` runs a longer search. */
const RUNS = Number(process.env['RUNS'] ?? 300)

let ids = 0
const ask = (gateway: FallbackLimiter, limits: Partial<KeyLimits>, tokens = 1) =>
  gateway.reserve({ key: 'k', id: `r${ids++}`, limits: { ...FREE, ...limits }, tokens })

describe('without the carrier of the limits', () => {
  it.each([
    ['share', [5, 5]],
    ['open', [8, 8]],
    ['closed', [0, 0]],
  ] as const)('gateways with `%s` admit %s of 8 requests each', async (fallback, expected) => {
    const carrier = new Carrier()
    carrier.isUp = false
    const counts = carrier.gateways(2, fallback).map(async (gateway) => {
      let admitted = 0
      for (let at = 0; at < 8; at++) if ((await ask(gateway, { requestsPerMin: 10 })).exceeded === null) admitted += 1
      return admitted
    })
    expect(await Promise.all(counts)).toEqual(expected)
    expect(carrier.lines).toEqual(['key_limit_unavailable', 'key_limit_unavailable'])
  })

  it('a gateway without the carrier of its limits asks it again after a second, not for each request', async () => {
    const carrier = new Carrier()
    const [gateway] = carrier.gateways(1)
    carrier.isUp = false
    for (let at = 0; at < 10; at++) await ask(gateway!, { concurrent: 100 })
    expect(carrier.calls).toBe(1)
    carrier.isUp = true
    carrier.now += 1_000
    await ask(gateway!, { concurrent: 100 })
    expect(carrier.calls).toBe(2)
    expect(carrier.lines).toEqual(['key_limit_unavailable', 'key_limit_available'])
  })

  it('shares add up to the limit, also of a limit below the number of gateways', () => {
    for (const concurrent of [1, 2, 7, 100]) {
      const parts = Array.from({ length: 3 }, (_, index) => shareOf({ ...FREE, concurrent }, { count: 3, index }))
      expect(parts.reduce((sum, part) => sum + part.concurrent!, 0)).toBe(concurrent)
    }
  })

  it('a share of no tokens admits nothing', async () => {
    const carrier = new Carrier()
    carrier.isUp = false
    const [first, second] = carrier.gateways(2)
    expect((await ask(first!, { tokensPerMin: 1 })).exceeded).toBeNull()
    expect((await ask(second!, { tokensPerMin: 1 }, 0)).exceeded).toBe('tokens_per_min')
  })
})

it('a reservation that the carrier makes too late is settled', async () => {
  const settled: unknown[] = []
  let answer: (answer: LimitAnswer) => void = () => undefined
  const carrier = {
    reserve: () => new Promise<LimitAnswer>((resolve) => void (answer = resolve)),
    settle: (settlement: unknown) => void settled.push(settlement),
    charge: noBudgets,
  }
  const gateway = new FallbackLimiter(carrier, {
    now: () => NOON,
    log: { info: () => undefined, warn: () => undefined },
    limitMs: 2,
    fallback: () => 'closed',
    share: () => ({ count: 1, index: 0 }),
  })
  expect((await ask(gateway, { concurrent: 1 })).exceeded).toBe('unavailable')
  expect(settled).toEqual([])
  answer({ exceeded: null, retryAfterMs: 0, requests: null, tokens: null })
  await new Promise(setImmediate)
  expect(settled).toEqual([expect.objectContaining({ key: 'k', tokens: null })])
})

it('the fallback limiter never admits more than the limits plus what was in use when the carrier failed, for any interleaving', async () => {
  const step = fc.oneof(
    { weight: 20, arbitrary: fc.record({ kind: fc.constant('ask' as const), gateway: fc.nat(3) }) },
    { weight: 10, arbitrary: fc.record({ kind: fc.constant('end' as const), gateway: fc.nat(1_000) }) },
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('wait' as const), gateway: fc.nat(40_000) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant('fail' as const), gateway: fc.nat(1) }) },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 40, maxLength: 300 }), async (steps) => {
      const carrier = new Carrier()
      const gateways = carrier.gateways(4)
      const limits = { requestsPerMin: 9, concurrent: 5 }
      const admitted: number[] = []
      const open: { readonly gateway: FallbackLimiter; readonly id: string }[] = []
      /** Usage at the last failure. */
      let before = { requests: 0, running: 0, at: -Infinity }
      let asks = 0
      const inMinute = () => admitted.filter((at) => at > carrier.now - 60_000).length
      for (const { kind, gateway: number } of steps) {
        if (kind === 'wait') carrier.now += number
        else if (kind === 'fail') {
          // One failure at a time: the effects of the previous one have expired.
          if (carrier.isUp && carrier.now - before.at < 200_000) continue
          if (carrier.isUp) {
            before = { requests: inMinute(), running: open.length, at: carrier.now }
            carrier.fail()
          } else carrier.restart()
        } else if (kind === 'end') {
          const ended = open.splice(number % Math.max(1, open.length), 1)[0]
          if (ended !== undefined) await ended.gateway.settle({ key: 'k', id: ended.id, tokens: 1 })
        } else {
          const gateway = gateways[number]!
          const id = `p${asks++}`
          const { exceeded } = await gateway.reserve({ key: 'k', id, limits: { ...FREE, ...limits }, tokens: 1 })
          if (exceeded !== null) continue
          admitted.push(carrier.now)
          open.push({ gateway, id })
          expect(inMinute()).toBeLessThanOrEqual(limits.requestsPerMin + before.requests)
          expect(open.length).toBeLessThanOrEqual(limits.concurrent + before.running)
        }
      }
    }),
    { numRuns: RUNS },
  )
})
