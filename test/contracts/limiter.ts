/** Contract of the carriers of limits per key: counts at a given time. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KeyLimiter } from '../../src/core/limits/key-limiter.ts'
import type { KeyLimits, LimitAnswer, LimitedRequest, Settlement } from '../../src/core/limits/key-limits.ts'

export interface TimedLimiter {
  reserve(request: LimitedRequest, now: number): Promise<LimitAnswer> | LimitAnswer
  settle(settlement: Settlement, now: number): Promise<void> | void
}

const FREE: KeyLimits = { requestsPerMin: null, tokensPerMin: null, tokensPerDay: null, concurrent: null }
/** A noon in UTC. */
const NOON = 20_000 * 86_400_000 + 43_200_000

/** `carrier` is called once for each test. Keys of two tests differ. */
export function limiterContract(name: string, carrier: () => Promise<TimedLimiter> | TimedLimiter, runs = 50): void {
  let keys = 0
  async function limited(limits: Partial<KeyLimits>) {
    const limiter = await carrier()
    const key = `k${++keys}`
    let ids = 0
    const all = { ...FREE, ...limits }
    return {
      key,
      limiter,
      limits: all,
      async reserve(now: number, tokens = 10, id = `r${ids++}`) {
        return { id, ...(await limiter.reserve({ key, id, limits: all, tokens }, now)) }
      },
      settle: (id: string, tokens: number | null, now: number) => limiter.settle({ key, id, tokens }, now),
    }
  }

  describe(`limits counted by ${name}`, () => {
    it('limits of a key admit as many requests as the limit, and the next one after a minute', async () => {
      const { reserve } = await limited({ requestsPerMin: 2 })
      await reserve(NOON)
      expect((await reserve(NOON + 100)).exceeded).toBeNull()
      const { exceeded, retryAfterMs } = await reserve(NOON + 500)
      expect(exceeded).toBe('requests_per_min')
      expect((await reserve(NOON + 500 + retryAfterMs - 1)).exceeded).toBe('requests_per_min')
      expect((await reserve(NOON + 500 + retryAfterMs)).exceeded).toBeNull()
    })

    it('limits of a key take all limits of a request or none', async () => {
      const { reserve, settle } = await limited({ concurrent: 1, requestsPerMin: 2, tokensPerMin: 100 })
      const first = await reserve(NOON, 10)
      for (let at = 0; at < 4; at++) expect((await reserve(NOON, 10)).exceeded).toBe('concurrent')
      await settle(first.id, 10, NOON)
      expect(await reserve(NOON, 10)).toMatchObject({
        exceeded: null,
        requests: { remaining: 0 },
        tokens: { remaining: 80 },
      })
    })

    it('limits of a key count a request once, however often it is reserved or ends', async () => {
      const { reserve, settle } = await limited({ requestsPerMin: 2, concurrent: 2 })
      for (let at = 0; at < 3; at++) expect((await reserve(NOON, 1, 'same')).exceeded).toBeNull()
      expect((await reserve(NOON)).requests).toMatchObject({ remaining: 0 })
      for (let at = 0; at < 3; at++) await settle('same', 1, NOON)
      expect((await reserve(NOON)).exceeded).toBe('requests_per_min')
    })

    it('limits of a key admit no more than the limit of requests that arrive at once', async () => {
      const { reserve } = await limited({ concurrent: 5 })
      const answers = await Promise.all(Array.from({ length: 40 }, () => reserve(NOON)))
      expect(answers.filter(({ exceeded }) => exceeded === null)).toHaveLength(5)
    })

    it('limits of a key are the same as in memory for any requests, ends and times', async () => {
      const step = fc.record({
        afterMs: fc.oneof(fc.nat(20_000), fc.constant(0), fc.constant(40_000_000)),
        tokens: fc.nat(150),
        settles: fc.boolean(),
        used: fc.option(fc.nat(150)),
      })
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
          const { key, limiter, limits } = await limited({
            requestsPerMin: 5,
            tokensPerMin: 100,
            tokensPerDay: 400,
            concurrent: 3,
          })
          const memory = new KeyLimiter()
          const open: string[] = []
          let now = NOON
          for (const [at, { afterMs, tokens, settles, used }] of steps.entries()) {
            now += afterMs
            const oldest = settles ? open.shift() : undefined
            if (oldest !== undefined) {
              await limiter.settle({ key, id: oldest, tokens: used }, now)
              memory.settle({ key, id: oldest, tokens: used }, now)
              continue
            }
            const request = { key, id: `r${at}`, limits, tokens }
            const answer = await limiter.reserve(request, now)
            expect(answer).toEqual(memory.reserve(request, now))
            if (answer.exceeded === null) open.push(request.id)
          }
        }),
        { numRuns: runs },
      )
    })
  })
}
