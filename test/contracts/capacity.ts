/** Capacity of pools in terms of their objective, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import type { PoolCapacity, RoleCapacity } from '../../src/core/contract/pool-capacity.ts'
import type { PoolDigest } from '../../src/core/contract/pool-digest.ts'
import type { PoolConfig } from '../../src/core/contract/pool-config.ts'
import { admission, engine, engines, outcome, pool, probe } from '../kit/pool-fixtures.ts'
import { until } from '../wait.ts'
import { admitted, type OpenCluster, type Source } from './cluster.ts'

const SLO = { ttftMs: 2_000, ttftMsPer1kTokens: null, itlMs: 100 }
const MINUTE_MS = 60_000

export function capacityContract(name: string, open: (source: Source) => Promise<OpenCluster>): void {
  describe(`${name}: capacity`, () => {
    let opened: OpenCluster

    afterEach(() => opened.close())

    const start = async (changes: Partial<PoolConfig> = {}): Promise<void> => {
      const source = { version: 1, pool: pool({ slo: SLO, ...changes }) }
      opened = await open(source)
      await opened.cluster.configure(1, source.pool)
    }
    const capacity = async (): Promise<PoolCapacity | undefined> => (await opened.cluster.digest()).capacity
    const only = async (): Promise<RoleCapacity> => {
      const [one, ...others] = (await capacity())!
      expect(others).toEqual([])
      return one!
    }
    /** Requests that are served at once, evenly over a minute. */
    const minute = async (requests: number): Promise<void> => {
      for (let at = 0; at < requests; at++) {
        const answer = await opened.cluster.admit(admission())
        if ('refusal' in answer) throw new Error(answer.refusal.detail)
        const { lease } = answer
        await lease.firstToken({ ttft: 120 })
        await lease.release(outcome({ usage: { promptTokens: 640, completionTokens: 100, cachedTokens: 0 } }))
        await opened.advance(MINUTE_MS / requests)
      }
    }

    it('a pool without an objective has no capacity', async () => {
      await start({ slo: null })
      await minute(2)
      expect(await capacity()).toBeUndefined()
    })

    it('a pool with an objective needs no engine before its first request, and its spare rate is unknown', async () => {
      await start()
      expect(await capacity()).toEqual([
        {
          role: 'any',
          replicas: 0,
          neededEngines: 0,
          requestsPerS: 0,
          spareRequestsPerS: null,
          exhaustionS: null,
        },
      ])
    })

    it('a pool with requests needs an engine, and none minutes after the last one', async () => {
      await start()
      await minute(6)
      const busy = await only()
      expect(busy).toMatchObject({ replicas: 1, requestsPerS: expect.closeTo(0.1, 1) })
      expect(busy.spareRequestsPerS).toBeGreaterThan(0)
      await opened.advance(6 * MINUTE_MS)
      const idle = await only()
      expect(idle).toMatchObject({ replicas: 0, neededEngines: 0, requestsPerS: 0, exhaustionS: null })
      await opened.advance(MINUTE_MS)
      expect(await only()).toEqual(idle)
    })

    it('a running request needs its engine, however long it runs', async () => {
      await start()
      const { lease } = await admitted(opened.cluster.admit(admission()))
      for (let minutes = 0; minutes < 12; minutes++) {
        await opened.advance(MINUTE_MS / 2)
        await lease.renew()
      }
      expect(await only()).toMatchObject({ replicas: 1, requestsPerS: 0 })
      await lease.release(outcome())
      expect((await only()).replicas).toBe(0)
    })

    it('refused requests count as arrivals, retries and hedges do not', async () => {
      await start({ engines: [engine('a', { maxInFlight: 1 })] })
      const { lease } = await admitted(opened.cluster.admit(admission()))
      await opened.advance(10_000)
      const before = (await only()).requestsPerS
      for (const changes of [{}, {}, { attempt: 1 }, { attempt: 1, second: { kind: 'hedge' } as const }])
        expect('refusal' in (await opened.cluster.admit(admission(changes)))).toBe(true)
      expect((await only()).requestsPerS).toBeCloseTo(3 * before)
      await lease.release(outcome())
    })

    it('a pool without engines needs one while requests wait for it', async () => {
      await start({ engines: [], queue: { maxRequests: 4, maxWaitMs: 1_000, noEngineWaitMs: 20_000 } })
      const answer = opened.cluster.queue!.wait(admission(), 0)
      await until(async () => (await opened.cluster.digest()).queue?.requests === 1)
      expect(await only()).toMatchObject({ replicas: 1, spareRequestsPerS: null })
      await opened.cluster.configure(2, pool({ slo: SLO, engines: engines('a') }))
      await answer
    })

    it('minutes in which requests are refused or late within the stated capacity are errors of it', async () => {
      await start({ engines: [engine('a', { maxInFlight: 1 })] })
      const error = async (): Promise<PoolDigest['capacityError']> => (await opened.cluster.digest()).capacityError
      await minute(2)
      await opened.advance(MINUTE_MS - (opened.now() % MINUTE_MS))
      expect(await error()).toBeUndefined()
      await minute(6)
      expect(await error()).toEqual({ minutes: 1, overstated: 0, understated: 0 })
      const held = await admitted(opened.cluster.admit(admission()))
      expect('refusal' in (await opened.cluster.admit(admission()))).toBe(true)
      await held.lease.firstToken({ ttft: SLO.ttftMs })
      await held.lease.release(outcome())
      await opened.advance(MINUTE_MS)
      expect(await error()).toEqual({ minutes: 2, overstated: 1, understated: 0 })
      const late = await admitted(opened.cluster.admit(admission()))
      await late.lease.firstToken({ ttft: SLO.ttftMs + 1 })
      await late.lease.release(outcome())
      await opened.advance(MINUTE_MS)
      expect(await error()).toEqual({ minutes: 3, overstated: 2, understated: 0 })
      await opened.advance(70 * MINUTE_MS)
      expect(await error()).toBeUndefined()
    })

    it('engines that may get no request have no spare rate', async () => {
      await start()
      await minute(2)
      const both = (await only()).spareRequestsPerS!
      await opened.cluster.observe([probe('a', opened.now(), { healthy: false })])
      const one = (await only()).spareRequestsPerS!
      expect(one).toBeLessThan(0.6 * both)
      await opened.cluster.observe([probe('b', opened.now(), { healthy: false })])
      expect(await only()).toMatchObject({ spareRequestsPerS: 0, exhaustionS: 0, replicas: 1 })
    })

    it('prefill and decode engines have capacities of their own', async () => {
      await start({ engines: [engine('p', { role: 'prefill' }), engine('d', { role: 'decode' })] })
      await minute(2)
      const roles = (await capacity())!
      expect(roles.map(({ role, replicas }) => [role, replicas])).toEqual([
        ['prefill', 1],
        ['decode', 1],
      ])
      expect(roles[0]!.spareRequestsPerS).not.toBe(roles[1]!.spareRequestsPerS)
    })
  })
}
