/** Requests that wait in a pool because no engine can serve them, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import type { Admission } from '../../src/core/contract/admission.ts'
import type { EngineSignal } from '../../src/core/contract/engine-signal.ts'
import { servingEngine } from '../../src/core/contract/placement.ts'
import type { PoolConfig } from '../../src/core/contract/pool-config.ts'
import type { Refusal } from '../../src/core/contract/refusal.ts'
import type { AdmitResult } from '../../src/ports/pool.ts'
import { admission, engine, outcome, pool, probe } from '../kit/pool-fixtures.ts'
import { until } from '../wait.ts'
import type { OpenCluster, Source } from './cluster.ts'

const QUEUE = { maxRequests: 4, maxWaitMs: 1_000, noEngineWaitMs: 20_000 }

export function engineWaitContract(name: string, open: (source: Source) => Promise<OpenCluster>): void {
  describe(`${name}: waiting for engines`, () => {
    let opened: OpenCluster
    let source: Source
    let at = 0

    afterEach(() => opened.close())

    const start = async (changes: Partial<PoolConfig> = {}): Promise<void> => {
      source = { version: 1, pool: pool({ engines: [engine('a', { maxInFlight: 1 })], queue: QUEUE, ...changes }) }
      opened = await open(source)
      // The pool state adopts the configuration with the first request.
      await opened.cluster.configure(1, source.pool)
    }
    const observe = (signal: EngineSignal) => opened.cluster.observe([signal])
    const healthy = (isHealthy: boolean) => observe(probe('a', (at += 1), { healthy: isHealthy }))
    const queued = async (): Promise<number> => (await opened.cluster.digest()).queue?.requests ?? 0
    const admit = (changes: Partial<Admission> = {}) => opened.cluster.admit(admission(changes))

    /** The host sees the clock advance in steps: a longer one would be a clock that was set. */
    async function pass(ms: number): Promise<void> {
      for (let passed = 0; passed < ms; passed += 500) {
        await opened.advance(500)
        await queued()
      }
    }

    it.each<[string, EngineSignal, EngineSignal]>([
      ['is unhealthy', probe('a', 1, { healthy: false }), probe('a', 2)],
      ['sleeps', probe('a', 1, { asleep: true }), probe('a', 2)],
      [
        'is paused',
        { kind: 'pause', engine: 'a', paused: { keeps: false, weights: null } },
        { kind: 'pause', engine: 'a', paused: null, isCold: true },
      ],
    ])('a request waits while the only engine %s, and gets it when it is back', async (_state, away, back) => {
      await start()
      await observe(away)
      expect(refusalOf(await admit())).toMatchObject({ reason: 'engines_unavailable', mayWait: true })
      const request = admission()
      const answer = opened.cluster.queue!.wait(request, 0)
      await until(async () => (await queued()) === 1)
      await pass(QUEUE.maxWaitMs + 500)
      expect(await queued()).toBe(1)
      await observe(back)
      expect(await answer).toMatchObject({ placement: { engine: 'a' } })
      expect(await opened.cluster.decisions!.explain(request.id)).toMatchObject({ waitedMs: 1_500 })
    })

    it('a pool without engines serves those who wait as soon as it has one', async () => {
      await start({ engines: [] })
      expect(refusalOf(await admit())).toMatchObject({ reason: 'no_engine', mayWait: true })
      const answer = opened.cluster.queue!.wait(admission(), 0)
      await until(async () => (await queued()) === 1)
      source.version = 2
      await opened.cluster.configure(2, { ...source.pool, engines: [engine('b')] })
      expect(await answer).toMatchObject({ placement: { engine: 'b' } })
    })

    it('the wait ends after its limit, with the reason of the last check', async () => {
      await start()
      await healthy(false)
      const answer = opened.cluster.queue!.wait(admission(), 0)
      await until(async () => (await queued()) === 1)
      await pass(QUEUE.noEngineWaitMs)
      expect(refusalOf(await answer)).toMatchObject({ reason: 'engines_unavailable' })
    })

    it('who has waited for an engine waits for room as long as others', async () => {
      await start()
      await healthy(false)
      const answers = [opened.cluster.queue!.wait(admission(), 0), opened.cluster.queue!.wait(admission(), 0)]
      await until(async () => (await queued()) === 2)
      await pass(5_000)
      await healthy(true)
      await until(async () => (await queued()) === 1)
      await pass(QUEUE.maxWaitMs)
      const results = await Promise.all(answers)
      expect(results.filter((one) => 'refusal' in one)).toMatchObject([{ refusal: { reason: 'engines_full' } }])
    })

    it('all who wait for room wait on when the only engine goes away', async () => {
      await start({ queue: { ...QUEUE, maxRequests: 8 } })
      const running = await admit()
      if ('refusal' in running) throw new Error(running.refusal.detail)
      const answers = Array.from({ length: 8 }, () => opened.cluster.queue!.wait(admission(), 0))
      await until(async () => (await queued()) === 8)
      await healthy(false)
      await pass(QUEUE.maxWaitMs + 500)
      expect(await queued()).toBe(8)
      await pass(QUEUE.noEngineWaitMs)
      const reasons = (await Promise.all(answers)).map((answer) => refusalOf(answer).reason)
      expect(new Set(reasons)).toEqual(new Set(['engines_unavailable']))
      await running.lease.release(outcome())
    })

    it('the number of those who wait is limited', async () => {
      await start()
      await healthy(false)
      const answers = Array.from({ length: QUEUE.maxRequests }, () => opened.cluster.queue!.wait(admission(), 0))
      await until(async () => (await queued()) === QUEUE.maxRequests)
      expect(refusalOf(await opened.cluster.queue!.wait(admission(), 0)).limit).toBe('queue')
      await healthy(true)
      await answers[0]
    })

    it('waiting for engines without the setting a request is refused, but waits for a paused pool', async () => {
      await start({ queue: { maxRequests: 4, maxWaitMs: 1_000 } })
      await healthy(false)
      expect(refusalOf(await admit()).mayWait).toBeUndefined()
      await observe({ kind: 'pause', engine: 'a', paused: { keeps: false, weights: null } })
      expect(refusalOf(await admit()).mayWait).toBe(true)
    })

    it('a request that no engine has worked on waits as a further attempt, other attempts do not', async () => {
      await start()
      await healthy(false)
      expect(refusalOf(await admit({ attempt: 1, moved: true })).mayWait).toBe(true)
      expect(refusalOf(await admit({ attempt: 1 })).mayWait).toBeUndefined()
    })

    it('a renewal reports a pause, and an answer that may not go on, until the booking ends', async () => {
      await start({ engines: [engine('a'), engine('b')] })
      const admitted = [await admit(), await admit()]
      const [one, other] = ['a', 'b'].map((id) => {
        const found = admitted.find((each) => 'lease' in each && servingEngine(each.placement) === id)
        if (found === undefined || 'refusal' in found) throw new Error(`engine ${id} got no request`)
        return found.lease
      })
      expect((await one!.renew()) ?? true).toBe(true)
      await observe({ kind: 'pause', engine: 'a', paused: { keeps: true, weights: 'v1' } })
      expect(await one!.renew()).toBe('paused')
      await observe({ kind: 'fence', engine: 'a' })
      expect(await one!.renew()).toBe('fenced')
      await observe({ kind: 'pause', engine: 'a', paused: null, isCold: true })
      expect(await one!.renew()).toBe('fenced')
      expect((await other!.renew()) ?? true).toBe(true)
      const later = await admit({ avoid: ['b'] })
      if ('refusal' in later) throw new Error(later.refusal.detail)
      expect((await later.lease.renew()) ?? true).toBe(true)
      for (const lease of [one!, other!, later.lease]) await lease.release(outcome())
    })

    it('a booking that is made again after a fence, and before the end of the pause, may not go on', async () => {
      await start({ engines: [engine('a')] })
      const request = admission()
      const first = await opened.cluster.admit(request)
      if ('refusal' in first) throw new Error(first.refusal.detail)
      await opened.advance(61_000)
      await observe({ kind: 'pause', engine: 'a', paused: { keeps: true, weights: 'v1' } })
      await observe({ kind: 'fence', engine: 'a' })
      const { placement } = first
      const again = await opened.cluster.resume({
        admission: request,
        placement,
        firstTokenSeen: true,
        outputBlocks: 1,
      })
      expect(await again.renew()).toBe('fenced')
      await again.release(outcome())
    })

    it('a booking that is made again after the end of the pause may not go on if it is older than the fence', async () => {
      await start({ engines: [engine('a')] })
      const [older, newer] = [admission(), admission()]
      const first = await opened.cluster.admit(older)
      if ('refusal' in first) throw new Error(first.refusal.detail)
      await opened.advance(61_000)
      await observe({ kind: 'pause', engine: 'a', paused: { keeps: true, weights: 'v1' } })
      await observe({ kind: 'fence', engine: 'a' })
      await observe({ kind: 'pause', engine: 'a', paused: null, isCold: true })
      await opened.advance(1_000)
      const { placement } = first
      const progress = { placement, firstTokenSeen: true, outputBlocks: 1 }
      const again = await opened.cluster.resume({ ...progress, admission: older, ageMs: 62_000 })
      const after = await opened.cluster.resume({ ...progress, admission: newer, ageMs: 500 })
      expect(await again.renew()).toBe('fenced')
      expect((await after.renew()) ?? true).toBe(true)
      for (const lease of [again, after]) await lease.release(outcome())
    })

    it('a pause outlives what a probe finds, and a check from before its end does not bring it back', async () => {
      await start()
      await observe({ kind: 'pause', engine: 'a', paused: { keeps: true, weights: 'v1' } })
      await observe(probe('a', (at += 1)))
      expect((await opened.cluster.digest()).engines[0]).toMatchObject({ available: false, paused: { weights: 'v1' } })
      await observe({ kind: 'pause', engine: 'a', paused: { keeps: false, weights: 'v2' } })
      expect((await opened.cluster.digest()).engines[0]!.paused).toEqual({ keeps: true, weights: 'v1' })
      await observe({ kind: 'pause', engine: 'a', paused: null, isCold: false })
      const answer = await admit()
      if ('refusal' in answer) throw new Error(answer.refusal.detail)
      await answer.lease.release(outcome())
    })
  })
}

const refusalOf = (answer: AdmitResult): Refusal => {
  if ('refusal' in answer) return answer.refusal
  throw new Error('it was admitted')
}
