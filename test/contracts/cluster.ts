import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Admission } from '../../src/core/contract/admission.ts'
import type { PoolDigest } from '../../src/core/contract/pool-digest.ts'
import { endedAs } from '../../src/core/contract/outcome.ts'
import type { PoolConfig } from '../../src/core/contract/pool-config.ts'
import type { Refusal } from '../../src/core/contract/refusal.ts'
import type { Resume } from '../../src/core/contract/resume.ts'
import type { AdmitResult, PoolPort } from '../../src/ports/pool.ts'
import type { Lease } from '../../src/ports/lease.ts'
import { bookingKey } from '../../src/core/pool/bookings.ts'
import { mergeSlices, mergeSteps } from '../../src/core/reports/merge-histories.ts'
import { quantileOf } from '../../src/core/reports/sketch.ts'
import { admission, engine, engines, failed, outcome, pool, probe, stats } from '../kit/pool-fixtures.ts'

/** One cluster object on some runtime, with a clock that the test sets. */
export interface OpenCluster {
  readonly cluster: PoolPort
  now(): number
  /** Advances the clock and runs what is due. */
  advance(ms: number): Promise<void>
  /** The object loses its memory, as after an eviction or a restart; what it had stored may be restored. */
  forget(): Promise<void>
  close(): Promise<void>
}

export interface Source {
  version: number
  pool: PoolConfig
}

/** Contract of every implementation of the Cluster port. `source` is the configuration of its edge, and can change. */
export function clusterContract(name: string, open: (source: Source) => Promise<OpenCluster>): void {
  let opened: OpenCluster
  let source: Source

  async function start(changes: Partial<PoolConfig> = {}): Promise<PoolPort> {
    source = { version: 1, pool: pool(changes) }
    opened = await open(source)
    return opened.cluster
  }

  const admit = (changes: Partial<Admission> = {}) => admitted(opened.cluster.admit(admission(changes)))
  const refusal = async (changes: Partial<Admission> = {}) => refused(await opened.cluster.admit(admission(changes)))
  const failOn = async (id: 'a' | 'b', times: number) => {
    for (let index = 0; index < times; index++)
      await (await admit({ avoid: [id === 'a' ? 'b' : 'a'] })).lease.release(failed)
  }
  const requests = async () => requestsOf(await opened.cluster.digest())
  const bookings = async () => (await opened.cluster.digest()).bookings

  beforeEach(() => start())
  afterEach(() => opened.close())

  describe(`${name}: booking`, () => {
    it('starts without bookings', async () => {
      expect(await bookings()).toBe(0)
      expect(await requests()).toEqual({ a: 0, b: 0 })
    })

    it('a pool books the request on the engine it places it on', async () => {
      const { engine: chosen } = await admit()
      expect(await bookings()).toBe(1)
      expect((await requests())[chosen]).toBe(1)
    })

    it('counts concurrent requests in each other’s decisions', async () => {
      const all = await Promise.all(Array.from({ length: 40 }, () => admit()))
      expect(await requests()).toEqual({ a: 20, b: 20 })
      await Promise.all(all.map(({ lease }) => lease.release(outcome())))
      expect(await requests()).toEqual({ a: 0, b: 0 })
    })

    it('a pool keeps a booking through the first token and output, and frees it at release', async () => {
      const { lease } = await admit()
      await lease.firstToken({ ttft: 120 })
      await lease.progress(3)
      expect(await bookings()).toBe(1)
      await lease.release(outcome())
      expect(await bookings()).toBe(0)
    })

    it('a pool frees a prefill engine when its leg is done, and keeps the decode engine', async () => {
      await restart({ engines: [engine('p', { role: 'prefill' }), engine('d', { role: 'decode' })] })
      const given = await opened.cluster.admit(admission())
      if ('refusal' in given) throw new Error(given.refusal.detail)
      const { lease } = given
      expect(await requests()).toEqual({ p: 1, d: 1 })
      await lease.legDone('prefill', { prefill_leg: 40 })
      await lease.legDone('prefill', { prefill_leg: 40 })
      expect(await requests()).toEqual({ p: 0, d: 1 })
      await lease.firstToken({ ttft: 50 })
      expect(await requests()).toEqual({ p: 0, d: 1 })
      await lease.release(outcome())
      await lease.legDone('prefill', {})
      expect(await requests()).toEqual({ p: 0, d: 0 })
    })

    it('a pool releases a booking once, however often release is called', async () => {
      const { lease, engine: chosen } = await admit()
      await admit({ avoid: [chosen === 'a' ? 'b' : 'a'] })
      await Promise.all([lease.release(outcome()), lease.release(outcome())])
      await lease.release(outcome({ result: 'client_gone' }))
      expect(await bookings()).toBe(1)
      expect((await requests())[chosen]).toBe(1)
    })

    it('a pool ignores late events of a released booking', async () => {
      const { lease } = await admit()
      await lease.release(outcome())
      await lease.firstToken({})
      await lease.progress(9)
      expect(await bookings()).toBe(0)
    })

    it('a pool rejects a renewal of a released booking', async () => {
      const { lease } = await admit()
      await lease.release(outcome())
      await expect(lease.renew()).rejects.toThrow()
    })

    it('a pool separates bookings that differ in nothing a client can choose', async () => {
      const same = { session: 's', tenant: 't', promptTokens: 10 }
      const first = await admit(same)
      const second = await admit(same)
      await first.lease.release(outcome())
      expect(await bookings()).toBe(1)
      await second.lease.renew()
      await second.lease.release(outcome())
      expect(await bookings()).toBe(0)
    })

    it('a pool answers a repeated admit with the existing booking', async () => {
      const request = admission()
      const first = await admitted(opened.cluster.admit(request))
      const again = await admitted(opened.cluster.admit(request))
      expect(again.engine).toBe(first.engine)
      expect(await bookings()).toBe(1)
      await again.lease.release(outcome())
      expect(await bookings()).toBe(0)
    })

    it('a pool books two attempts of one request separately', async () => {
      const first = admission()
      const one = await admitted(opened.cluster.admit(first))
      const two = await admitted(opened.cluster.admit({ ...first, attempt: 1, avoid: [one.engine] }))
      expect(two.engine).not.toBe(one.engine)
      expect(await bookings()).toBe(2)
      await one.lease.release(failed)
      await two.lease.release(outcome())
      expect(await bookings()).toBe(0)
    })

    it('a pool uses an idle fleet in turn', async () => {
      await restart({ engines: engines('a', 'b', 'c', 'd') })
      const counts: Record<string, number> = {}
      for (let index = 0; index < 20; index++) {
        const { lease, engine: chosen } = await admit()
        counts[chosen] = (counts[chosen] ?? 0) + 1
        await lease.release(outcome())
        await opened.advance(100)
      }
      expect(counts).toEqual({ a: 5, b: 5, c: 5, d: 5 })
    })
  })

  describe(`${name}: lapse and resume`, () => {
    it('a pool expires a booking without renewal', async () => {
      await admit()
      await opened.advance(59_000)
      expect(await bookings()).toBe(1)
      await opened.advance(2_000)
      expect(await bookings()).toBe(0)
    })

    it('a pool keeps a two-hour stream that is renewed, and expires one that is not', async () => {
      const live = await admit()
      await admit()
      for (let minute = 0; minute < 120; minute += 0.9) {
        await opened.advance(54_000)
        await live.lease.renew()
      }
      expect(await bookings()).toBe(1)
      expect((await requests())[live.engine]).toBe(1)
      await live.lease.release(outcome())
      expect(await bookings()).toBe(0)
    })

    it('counts output as a renewal', async () => {
      const { lease } = await admit()
      await lease.firstToken({})
      for (let index = 1; index <= 5; index++) {
        await opened.advance(45_000)
        await lease.progress(index)
      }
      expect(await bookings()).toBe(1)
    })

    it('a pool rejects the renewal of an expired booking, and books it again on resume', async () => {
      const request = admission()
      const { lease, placement } = await admitted(opened.cluster.admit(request))
      await opened.advance(61_000)
      await expect(lease.renew()).rejects.toThrow(/resume/)
      const resumed = await opened.cluster.resume({
        admission: request,
        placement,
        firstTokenSeen: true,
        outputBlocks: 4,
      })
      expect(await bookings()).toBe(1)
      await resumed.release(outcome())
      expect(await bookings()).toBe(0)
    })

    it('a pool distinguishes a booking from an earlier one of the same name that has ended', async () => {
      const request = admission()
      await (await admitted(opened.cluster.admit(request))).lease.release(outcome({ result: 'abandoned' }))
      const { placement } = await admitted(opened.cluster.admit({ ...request, avoid: ['a'] }))
      await opened.advance(61_000)
      expect(await bookings()).toBe(0)
      const resumed = await opened.cluster.resume({
        admission: request,
        placement,
        firstTokenSeen: true,
        outputBlocks: 1,
      })
      expect(await bookings()).toBe(1)
      await resumed.release(outcome())
      expect(await bookings()).toBe(0)
    })

    it('a pool counts a resumed booking once if it still exists', async () => {
      const request = admission()
      const { placement, lease } = await admitted(opened.cluster.admit(request))
      const resumed = await opened.cluster.resume(resumeOf(request, placement))
      expect(await bookings()).toBe(1)
      await lease.release(outcome())
      await resumed.release(outcome())
      expect(await bookings()).toBe(0)
    })

    it('a pool does not restore a released booking on a late resume', async () => {
      const request = admission()
      const { placement, lease } = await admitted(opened.cluster.admit(request))
      await lease.release(outcome())
      await opened.cluster.resume(resumeOf(request, placement))
      expect(await bookings()).toBe(0)
    })

    it('a pool resumes a lost booking on the same engine', async () => {
      const request = admission()
      const { placement, engine: chosen } = await admitted(opened.cluster.admit(request))
      await opened.forget()
      const resumed = await opened.cluster.resume(resumeOf(request, placement))
      expect((await requests())[chosen]).toBe(1)
      expect(await bookings()).toBe(1)
      await resumed.release(outcome())
      expect(await bookings()).toBe(0)
    })

    it('a pool resumes a booking on an engine that is no longer configured without harm', async () => {
      const request = admission()
      const resumed = await opened.cluster.resume(resumeOf(request, { kind: 'whole', engine: 'gone', runnersUp: [] }))
      expect(await requests()).toEqual({ a: 0, b: 0 })
      await resumed.release(outcome())
      expect(await bookings()).toBe(0)
    })
  })

  describe(`${name}: overload`, () => {
    const one = { engines: [engine('a')] }

    it('a pool under overload bounds the requests that wait for their first token', async () => {
      await restart({ ...one, maxWaiting: 2 })
      const first = await admit()
      await admit()
      const { reason, limit, retryAfterMs } = await refusal()
      expect([reason, limit]).toEqual(['overloaded', 'waiting'])
      expect(retryAfterMs).toBeGreaterThanOrEqual(250)
      expect(await bookings()).toBe(2)
      await first.lease.firstToken({ ttft: 10 })
      await admit()
    })

    it('a pool under overload refuses what would slow down running streams, and admits it when they have ended', async () => {
      // A decode step of the model takes at least 10 ms, so a second stream exceeds the objective.
      await restart({ ...one, slo: { ttftMs: null, ttftMsPer1kTokens: null, itlMs: 5 } })
      const first = await admit()
      expect((await refusal()).limit).toBe('itl')
      expect(await bookings()).toBe(1)
      await first.lease.release(outcome())
      await (await admit()).lease.release(outcome())
      expect(await bookings()).toBe(0)
    })

    it('a pool under overload refuses a split request if its decode engine is full, and leaves nothing on the idle prefill engine', async () => {
      await restart({
        engines: [engine('p', { role: 'prefill' }), engine('d', { role: 'decode' })],
        split: { mode: 'always', thresholdTokens: 0, fallback: 'fail' },
        slo: { ttftMs: null, ttftMsPer1kTokens: null, itlMs: 5 },
      })
      const first = await opened.cluster.admit(admission())
      if ('refusal' in first) throw new Error(first.refusal.detail)
      await first.lease.legDone('prefill', {})
      for (let round = 0; round < 3; round++) expect((await refusal()).limit).toBe('itl')
      const prefill = (await opened.cluster.digest()).engines.find(({ id }) => id === 'p')!
      expect([prefill.requests, prefill.queuedPrefillS, await bookings()]).toEqual([0, 0, 1])
      await first.lease.release(outcome())
      expect(await requests()).toEqual({ p: 0, d: 0 })
    })

    it('a pool under overload moves a request to an engine with room', async () => {
      await restart({
        slo: { ttftMs: null, ttftMsPer1kTokens: null, itlMs: 5 },
        policy: { name: 'session', options: {} },
      })
      const first = await admit({ session: 's' })
      const second = await admit({ session: 's' })
      expect(new Set([first.engine, second.engine])).toEqual(new Set(['a', 'b']))
      expect((await refusal({ session: 's' })).limit).toBe('itl')
      for (const { lease } of [first, second]) await lease.release(outcome())
      expect(await requests()).toEqual({ a: 0, b: 0 })
    })

    it('a pool under overload counts each of many refusals, and admits again within a second after it has room', async () => {
      await restart({ ...one, maxWaiting: 1 })
      const first = await admit()
      for (let round = 1; round <= 400; round++) expect((await refusal()).limit).toBe('waiting')
      await opened.advance(1_000)
      await refusal()
      const { decisions = [] } = await opened.cluster.digest()
      const refusals = decisions.filter(({ refused: reason }) => reason.startsWith('overloaded_'))
      expect(refusals.reduce((sum, { count }) => sum + count, 0)).toBe(401)
      await first.lease.release(outcome())
      await opened.advance(1_000)
      await admit()
    })

    it('a pool under overload refuses a deadline that has passed, and keeps one that is far', async () => {
      expect((await refusal({ ttftDeadlineMs: 0 })).limit).toBe('deadline')
      expect(await bookings()).toBe(0)
      await admit({ ttftDeadlineMs: 600_000 })
    })

    it('a pool under overload counts refusals by limit', async () => {
      await refusal({ ttftDeadlineMs: 0 })
      expect((await opened.cluster.digest()).decisions).toContainEqual(
        expect.objectContaining({ refused: 'overloaded_deadline', count: 1 }),
      )
    })
  })

  describe(`${name}: load from other sources`, () => {
    for (const policy of ['least_loaded', 'predicted'])
      it(`${policy} leaves an engine that reports requests of others, until the report is old`, async () => {
        await restart({ policy: { name: policy, options: {} }, statsIntervalMs: 1_000 })
        const serve = async (): Promise<string> => {
          const { engine: chosen, lease } = await admit()
          await lease.firstToken({ ttft: 100 })
          await lease.release(outcome())
          return chosen
        }
        await serve()
        await serve()
        const busy = stats({ running: 8, waiting: 40 })
        await opened.cluster.observe([
          probe('a', opened.now(), { stats: busy }),
          probe('b', opened.now(), { stats: stats() }),
        ])
        expect([await serve(), await serve(), await serve()]).toEqual(['b', 'b', 'b'])
        await opened.advance(3_500)
        expect(await serve()).toBe('a')
      })
  })

  describe(`${name}: engines with few places`, () => {
    it('engines with few places learns how many requests an engine runs from requests that wait for another to end', async () => {
      const onA = () => admit({ avoid: ['b'], promptTokens: 640, streams: true })
      await opened.cluster.observe([probe('a', opened.now(), { stats: stats({ cacheBlocks: 10_000, kvUsage: 0 }) })])
      const running: Lease[] = []
      for (let count = 0; count < 2; count++) {
        const { lease } = await onA()
        await lease.firstToken({ ttft: 100 })
        running.push(lease)
      }
      const places = async () => (await opened.cluster.digest()).engines.find(({ id }) => id === 'a')!.learned?.places
      for (let count = 0; count < 3; count++) {
        expect(await places()).toBeUndefined()
        const { lease } = await onA()
        await opened.advance(5_000)
        await running.shift()!.release(outcome())
        await lease.firstToken({ ttft: 5_000 })
        running.push(lease)
      }
      expect(await places()).toBe(2)
      const { lease: third } = await onA()
      await third.firstToken({ ttft: 100 })
      // It runs three: the two places were a wrong conclusion.
      expect(await places()).toBeUndefined()
    })
  })

  describe(`${name}: eligible engines`, () => {
    it('a pool refuses at once with a retry time if every engine is down', async () => {
      await opened.cluster.observe([
        probe('a', opened.now(), { healthy: false }),
        probe('b', opened.now(), { healthy: false }),
      ])
      const { reason, retryAfterMs, detail } = await refusal()
      expect(reason).toBe('engines_unavailable')
      expect(retryAfterMs).toBeGreaterThanOrEqual(1_000)
      expect(detail).toBe('2 unhealthy')
      expect(await bookings()).toBe(0)
    })

    it('a pool refuses for lack of room at the engines limit, and only there', async () => {
      await restart({ engines: [engine('a', { maxInFlight: 2 })] })
      const first = await admit()
      await admit()
      expect((await refusal()).reason).toBe('engines_full')
      await first.lease.release(outcome())
      await admit()
    })

    it('a pool refuses as full if one engine is full and the other one down', async () => {
      await restart({ engines: [engine('a', { maxInFlight: 1 }), engine('b')] })
      await admit({ avoid: ['b'] })
      await opened.cluster.observe([probe('b', opened.now(), { healthy: false })])
      expect((await refusal()).reason).toBe('engines_full')
    })

    it('a pool keeps the bookings of an engine while its health changes', async () => {
      const { engine: chosen, lease } = await admit()
      await opened.cluster.observe([probe(chosen, opened.now(), { healthy: false })])
      expect((await requests())[chosen]).toBe(1)
      await opened.advance(1_000)
      await opened.cluster.observe([probe(chosen, opened.now())])
      expect((await requests())[chosen]).toBe(1)
      await lease.release(outcome())
      expect((await requests())[chosen]).toBe(0)
    })

    it('a pool keeps an engine whose check timed out while its responses went on, and no other', async () => {
      const { engine: chosen, lease } = await admit()
      const late = (problem: string, sentAt: number) => probe(chosen, opened.now(), { healthy: false, problem, sentAt })
      const sentAt = opened.now()
      await opened.advance(1_000)
      await lease.firstToken({ ttft: 100 })
      await opened.cluster.observe([late('first_byte_timeout', sentAt)])
      expect((await availability())[chosen]).toBe(true)
      await opened.cluster.observe([late('connect', sentAt)])
      expect((await availability())[chosen]).toBe(false)
      await opened.cluster.observe([probe(chosen, opened.now())])
      await opened.advance(1_000)
      await opened.cluster.observe([late('first_byte_timeout', opened.now())])
      expect((await availability())[chosen]).toBe(false)
      await lease.release(outcome())
    })

    it('a pool ignores a probe that is older than the last one', async () => {
      const early = opened.now()
      await opened.advance(1_000)
      await opened.cluster.observe([probe('a', opened.now())])
      await opened.cluster.observe([probe('a', early, { healthy: false })])
      expect(await availability()).toEqual({ a: true, b: true })
    })

    it('a pool sends no new requests to a draining engine, lets running ones finish, and undrains it', async () => {
      const held = await admit()
      await opened.cluster.observe([{ kind: 'drain', engine: held.engine, draining: true }])
      for (let index = 0; index < 4; index++) expect((await admit()).engine).not.toBe(held.engine)
      expect((await requests())[held.engine]).toBe(1)
      await opened.cluster.observe([{ kind: 'drain', engine: held.engine, draining: false }])
      await held.lease.release(outcome())
      expect((await admit()).engine).toBe(held.engine)
    })

    it('a pool sends no requests to a sleeping engine', async () => {
      await opened.cluster.observe([probe('a', opened.now(), { asleep: true })])
      for (let index = 0; index < 3; index++) expect((await admit()).engine).toBe('b')
    })

    it('a pool sends a model only to engines that serve it', async () => {
      await restart({ engines: [engine('a', { models: ['qwen', 'lora-1'] }), engine('b', { models: ['other'] })] })
      for (let index = 0; index < 3; index++)
        expect((await admit({ model: 'lora-1', adapter: 'lora-1' })).engine).toBe('a')
      expect((await refusal({ model: 'unheard' })).reason).toBe('no_engine')
    })

    it('a pool does not serve a whole request on a prefill engine', async () => {
      await restart({ engines: [engine('p', { role: 'prefill' })] })
      expect((await refusal()).reason).toBe('role_empty')
    })

    it('a pool does not send a request back to an engine that failed it', async () => {
      for (let index = 0; index < 3; index++) expect((await admit({ avoid: ['a'] })).engine).toBe('b')
      expect((await refusal({ avoid: ['a', 'b'] })).reason).toBe('engines_unavailable')
    })
  })

  describe(`${name}: circuits and retries`, () => {
    it('a pool opens a circuit after consecutive failures', async () => {
      await failOn('a', 2)
      expect(await circuits()).toEqual({ a: 'closed', b: 'closed' })
      await failOn('a', 1)
      expect(await circuits()).toEqual({ a: 'open', b: 'closed' })
      expect((await refusal({ avoid: ['b'] })).reason).toBe('engines_unavailable')
    })

    it('a pool forgets failures at a success', async () => {
      await failOn('a', 2)
      await (await admit({ avoid: ['b'] })).lease.release(outcome())
      await failOn('a', 2)
      expect((await circuits())['a']).toBe('closed')
    })

    it('a pool opens a circuit after consecutive truncated streams, even if each had started', async () => {
      const begin = async () => {
        const { lease } = await admit({ avoid: ['b'] })
        await lease.firstToken({})
        return lease
      }
      for (let index = 0; index < 2; index++) await (await begin()).release({ ...failed, failure: 'reset' })
      await (await begin()).release(outcome())
      for (let index = 0; index < 2; index++) await (await begin()).release({ ...failed, failure: 'idle_timeout' })
      expect((await circuits())['a']).toBe('closed')
      await (await begin()).release({ ...failed, failure: 'reset' })
      expect(await circuits()).toEqual({ a: 'open', b: 'closed' })
      await opened.advance(10_000)
      const trial = await begin()
      expect((await circuits())['a']).toBe('closed')
      await trial.release({ ...failed, failure: 'reset' })
      expect((await circuits())['a']).toBe('open')
    })

    it('a pool opens a circuit after truncated streams, others with unknown ends among them, until one is complete', async () => {
      const end = async (how: Parameters<typeof outcome>[0]) => {
        const { lease } = await admit({ avoid: ['b'] })
        await lease.firstToken({})
        await lease.release(outcome(how))
      }
      const truncated = { result: 'engine_failed', failure: 'reset' } as const
      for (let index = 0; index < 2; index++) {
        await end(truncated)
        await end({ endUnseen: true })
      }
      await end({})
      for (let index = 0; index < 2; index++) {
        await end(truncated)
        for (let round = 0; round < 9; round++) await end({ endUnseen: true })
      }
      expect((await circuits())['a']).toBe('closed')
      await end(truncated)
      expect(await circuits()).toEqual({ a: 'open', b: 'closed' })
    })

    it('a pool does not count a running stream as a success of the engine that prefilled it', async () => {
      await restart({
        engines: [engine('p', { role: 'prefill' }), engine('d', { role: 'decode' })],
        split: { mode: 'always', thresholdTokens: 0, fallback: 'fail' },
      })
      const split = async () => {
        const given = await opened.cluster.admit(admission())
        if ('refusal' in given) throw new Error(`refused: ${JSON.stringify(given.refusal)}`)
        return given.lease
      }
      const long = [await split(), await split()]
      for (const lease of long) {
        await lease.legDone('prefill', {}, null)
        await lease.firstToken({})
      }
      for (let index = 0; index < 3; index++) {
        await (await split()).release({ ...failed, failedEngine: 'p' })
        // It prefilled this one long before, and may have stopped since.
        await long[index]?.release(outcome())
      }
      expect(await circuits()).toEqual({ p: 'open', d: 'closed' })
    })

    it('a pool blames no engine for a client that left or for a request the engine refused', async () => {
      for (let index = 0; index < 5; index++) {
        await (await admit({ avoid: ['b'] })).lease.release(outcome({ result: 'client_gone', status: null }))
        await (await admit({ avoid: ['b'] })).lease.release(outcome({ result: 'engine_refused', status: 400 }))
      }
      expect((await circuits())['a']).toBe('closed')
    })

    it('a pool forgets failures caused by the request, even if they opened the circuit, and no others', async () => {
      await failOn('a', 1)
      const poison = []
      for (let index = 0; index < 2; index++) {
        const request = admission({ avoid: ['b'] })
        await (
          await admitted(opened.cluster.admit(request))
        ).lease.release({ ...failed, failure: 'status_5xx', status: 500 })
        poison.push({ kind: 'excused' as const, engine: 'a', booking: bookingKey(request) })
      }
      expect((await circuits())['a']).toBe('open')
      await opened.cluster.observe(poison)
      expect((await circuits())['a']).toBe('closed')
      await opened.cluster.observe(poison)
      await failOn('a', 1)
      expect((await circuits())['a']).toBe('closed')
      await failOn('a', 1)
      expect((await circuits())['a']).toBe('open')
    })

    it('a pool counts a hung request as a failure of its engine', async () => {
      await (await admit({ avoid: ['b'] })).lease.release({ ...failed, failure: 'first_byte_timeout' })
      const {
        engines: [a, b],
      } = await opened.cluster.digest()
      expect([a!.failuresTotal, b!.failuresTotal]).toEqual([1, 0])
    })

    it('a pool admits one trial after the open time, and closes at its first token', async () => {
      await failOn('a', 3)
      await opened.advance(10_000)
      const trial = await admit({ avoid: ['b'] })
      expect(await circuits()).toEqual({ a: 'half_open', b: 'closed' })
      await expect(refusal({ avoid: ['b'] })).resolves.toMatchObject({ reason: 'engines_unavailable' })
      await trial.lease.firstToken({})
      expect((await circuits())['a']).toBe('closed')
    })

    it('a pool opens again, for longer, when the trial fails', async () => {
      await failOn('a', 3)
      await opened.advance(10_000)
      await failOn('a', 1)
      await opened.advance(10_000)
      await refusal({ avoid: ['b'] })
      await opened.advance(10_000)
      await admit({ avoid: ['b'] })
    })

    it('a pool admits another trial if the first had no result for the engine', async () => {
      await failOn('a', 3)
      await opened.advance(10_000)
      const trial = await admit({ avoid: ['b'] })
      await trial.lease.release(outcome({ result: 'client_gone', status: null }))
      expect((await admit({ avoid: ['b'] })).engine).toBe('a')
    })

    it('a pool grants retries as a share of requests and a floor, and no more', async () => {
      await restart({ retry: { share: 0.1, minPerS: 0.2 } })
      for (let index = 0; index < 30; index++) await admit()
      // 10 % of 30, and 0.2 per second over ten seconds.
      for (let index = 0; index < 5; index++) await admit({ attempt: 1 })
      expect((await refusal({ attempt: 1 })).reason).toBe('retry_budget')
      // No engine has worked on it yet.
      await admit({ attempt: 1, moved: true })
      expect((await refusal({ attempt: 1 })).reason).toBe('retry_budget')
      await opened.advance(11_000)
      await admit({ attempt: 1 })
      await admit({ attempt: 2 })
      expect((await refusal({ attempt: 1 })).reason).toBe('retry_budget')
    })

    it('a pool takes a second engine beside a late one from the retry budget, and counts no retry and no refusal', async () => {
      await restart({ retry: { share: 0, minPerS: 0.1 } })
      await admit({ id: 'late', avoid: ['b'] })
      const hedge = { id: 'late', attempt: 1, second: { kind: 'hedge' }, avoid: ['a'] } as const
      const { lease } = await admit(hedge)
      expect(await opened.cluster.decisions!.explain('late')).toMatchObject({
        attempt: 1,
        hedge: true,
        placement: { engine: 'b' },
      })
      expect(await refusal({ ...hedge, id: 'other' })).toMatchObject({ reason: 'retry_budget' })
      const { decisions = [] } = await opened.cluster.digest()
      expect(decisions).toMatchObject([{ retry: false, refused: '', count: 2 }])
      expect(decisions).toHaveLength(1)
      await lease.release(endedAs('abandoned'))
      // The first engine answered, so its decision is the one to show.
      expect(await opened.cluster.decisions!.explain('late')).toMatchObject({ attempt: 0, placement: { engine: 'a' } })
      expect((await opened.cluster.decisions!.explain('late'))!.retryRefused).toBeUndefined()
    })

    it('a pool grants retries whatever hedges have used, and hedges what retries leave', async () => {
      await restart({ retry: { share: 0, minPerS: 0.4 } })
      for (const id of ['late', 'later']) await admit({ id, attempt: 1, second: { kind: 'hedge' } })
      for (const id of ['failed', 'failed again']) await admit({ id, attempt: 1 })
      const hedge = { id: 'latest', attempt: 1, second: { kind: 'hedge' } } as const
      expect(await refusal(hedge)).toMatchObject({ reason: 'retry_budget' })
      for (const attempt of [2, 3]) await admit({ id: 'failed', attempt })
      expect(await refusal({ id: 'failed', attempt: 4 })).toMatchObject({ reason: 'retry_budget' })
      await opened.advance(11_000)
      for (let at = 0; at < 4; at++) await admit({ ...hedge, id: `hedge ${at}` })
      expect(await refusal(hedge)).toMatchObject({ reason: 'retry_budget' })
    })

    describe('with a spent retry budget and prefill and decode engines', () => {
      const split = (fallback: 'decode_only' | 'fail', minPerS = 0) =>
        restart({
          engines: [
            engine('p0', { role: 'prefill' }),
            engine('p1', { role: 'prefill' }),
            engine('d', { role: 'decode' }),
          ],
          split: { mode: 'always', thresholdTokens: 0, fallback },
          retry: { share: 0, minPerS },
        })
      const second = (changes: Partial<Admission>) =>
        opened.cluster.admit(admission({ attempt: 1, avoid: ['p0'], ...changes }))
      const placed = async (changes: Partial<Admission>) => {
        const given = await second(changes)
        return 'refusal' in given ? given.refusal.reason : given.placement
      }

      it('a split pool with a spent retry budget serves on the decode engine alone after a failed prefill leg, however often', async () => {
        await split('decode_only')
        for (let index = 0; index < 20; index++) {
          expect(await placed({ failedLegs: ['prefill'] })).toMatchObject({ kind: 'whole', engine: 'd' })
        }
        const { decisions = [] } = await opened.cluster.overview!.summary(1)
        expect(decisions[0]!.split).toEqual({ taken: false, why: 'cannot be split: the retry budget is spent' })
      })

      it('a split pool with a spent retry budget refuses after a failure of the decode engine, and counts it', async () => {
        await split('decode_only')
        expect(await placed({})).toBe('retry_budget')
        const { decisions = [] } = await opened.cluster.digest()
        expect(decisions).toMatchObject([{ refused: 'retry_budget', retry: true, count: 1 }])
      })

      it('a split pool with a spent retry budget refuses a second prefill leg if the pool requires a split', async () => {
        await split('fail')
        expect(await placed({ failedLegs: ['prefill'] })).toBe('retry_budget')
      })

      it('a split pool with a spent retry budget counts a second prefill leg as a retry, and serving on the decode engine alone as none', async () => {
        await split('decode_only', 0.2)
        for (let index = 0; index < 2; index++) {
          expect(await placed({ failedLegs: ['prefill'], avoid: ['p0', 'p1'] })).toMatchObject({ kind: 'whole' })
        }
        for (let index = 0; index < 2; index++) {
          expect(await placed({ failedLegs: ['prefill'] })).toMatchObject({ kind: 'split', prefill: 'p1' })
        }
        expect(await placed({ failedLegs: ['prefill'] })).toMatchObject({ kind: 'whole' })
        expect(await placed({})).toBe('retry_budget')
      })

      it('a split pool with a spent retry budget encodes on the answering engine after a failed encode leg', async () => {
        await restart({
          engines: [engine('e0', { role: 'encode' }), engine('e1', { role: 'encode' }), engine('a')],
          retry: { share: 0, minPerS: 0 },
        })
        expect(await placed({ failedLegs: ['encode'], avoid: ['e0'], encodeItems: 1 })).toMatchObject({
          kind: 'whole',
          engine: 'a',
        })
      })
    })
  })

  describe(`${name}: configuration`, () => {
    it('a pool refuses requests with `fallback: fail` while discovery finds no engine of a role, and serves them again', async () => {
      const split = { mode: 'always', thresholdTokens: 0, fallback: 'fail' } as const
      const [prefill, decode] = [engine('p', { role: 'prefill' }), engine('d', { role: 'decode' })]
      await restart({ engines: [prefill, decode], split })
      const both = await opened.cluster.admit(admission())
      if ('refusal' in both) throw new Error(both.refusal.detail)
      expect(both.placement.kind).toBe('split')
      await both.lease.release(outcome())
      await restart({ engines: [decode], split })
      expect(await refusal()).toMatchObject({ reason: 'role_empty', emptyRole: 'role "prefill"' })
      await restart({ engines: [decode], split: { ...split, fallback: 'decode_only' } })
      expect((await admit()).engine).toBe('d')
      await restart({ engines: [engine('a'), engine('b')], split })
      await (await admit()).lease.release(outcome())
    })

    it('a pool adopts only newer versions', async () => {
      await opened.cluster.configure(5, pool({ engines: engines('c') }))
      await opened.cluster.configure(4, pool({ engines: engines('d') }))
      await opened.cluster.configure(5, pool({ engines: engines('e') }))
      expect(await requests()).toEqual({ c: 0 })
    })

    it('a pool requests the configuration that an edge already has', async () => {
      source.version = 2
      source.pool = pool({ engines: engines('x') })
      expect((await admit({ configVersion: 2 })).engine).toBe('x')
      expect((await opened.cluster.digest()).configVersion).toBe(2)
    })

    it('a pool lets a removed engine finish, and then forgets it', async () => {
      const { lease, engine: chosen } = await admit({ avoid: ['b'] })
      source.version = 2
      source.pool = pool({ engines: engines('b') })
      await opened.cluster.configure(2, source.pool)
      expect(await requests()).toEqual({ a: 1, b: 0 })
      for (let index = 0; index < 3; index++) expect((await admit()).engine).toBe('b')
      await lease.release(outcome())
      expect(chosen).toBe('a')
      expect(Object.keys(await requests())).toEqual(['b'])
    })

    it('a pool keeps draining an engine that returns before its requests end; a forgotten one is new', async () => {
      const { lease } = await admit({ avoid: ['b'] })
      await opened.cluster.observe([{ kind: 'drain', engine: 'a', draining: true }])
      for (const [version, ids] of [
        [2, ['b']],
        [3, ['a', 'b']],
      ] as const)
        await opened.cluster.configure(version, pool({ engines: engines(...ids) }))
      expect(await availability()).toEqual({ a: false, b: true })
      await lease.release(outcome())
      for (const [version, ids] of [
        [4, ['b']],
        [5, ['a', 'b']],
      ] as const)
        await opened.cluster.configure(version, pool({ engines: engines(...ids) }))
      expect(await availability()).toEqual({ a: true, b: true })
    })

    it('a pool keeps the bookings of an engine whose configuration changes', async () => {
      const { lease } = await admit({ avoid: ['b'] })
      await opened.cluster.configure(2, pool({ engines: [engine('a', { weight: 3 }), engine('b')] }))
      expect((await requests())['a']).toBe(1)
      await lease.release(outcome())
      expect((await requests())['a']).toBe(0)
    })

    it('a pool serves an edge with an older version of the configuration', async () => {
      await opened.cluster.configure(7, pool())
      expect((await admit({ configVersion: 1 })).engine).toMatch(/a|b/)
    })
  })

  describe(`${name}: telling why`, () => {
    it('a pool explains a decision with every candidate, its terms, and the excluded engines', async () => {
      await restart({ engines: engines('a', 'b', 'c') })
      await opened.cluster.observe([{ kind: 'drain', engine: 'c', draining: true }])
      const request = admission()
      const { engine: chosen, lease } = await admitted(opened.cluster.admit(request))
      await lease.release(outcome({ stages: { ttft: 80 } }))
      const decision = await opened.cluster.decisions!.explain(request.id)
      expect(decision).toMatchObject({
        id: request.id,
        cluster: 'paris',
        pool: 'qwen',
        policy: 'least_loaded',
        fallback: null,
      })
      expect(decision?.placement).toMatchObject({ kind: 'whole', engine: chosen })
      expect(decision?.candidates.map((candidate) => candidate.engine).sort()).toEqual(['a', 'b'])
      expect(decision?.candidates[0]?.terms).toMatchObject({ requests: 0 })
      expect(decision?.excluded).toEqual([{ engine: 'c', reason: 'draining' }])
      expect(decision?.actual).toEqual({ ttftMs: 80, cachedTokens: null, result: 'complete', stages: { ttft: 80 } })
    })

    it('a pool has no decision for an unknown request', async () => {
      expect(await opened.cluster.decisions!.explain('unheard')).toBeNull()
    })

    it('ranks without booking and without a trace', async () => {
      const request = admission()
      const ranked = await opened.cluster.decisions!.dryRun(request)
      expect('decision' in ranked && ranked.decision.candidates).toHaveLength(2)
      expect(await bookings()).toBe(0)
      expect(await opened.cluster.decisions!.explain(request.id)).toBeNull()
    })

    it('a pool names the configured policy and the reason when another had to rank', async () => {
      await restart({ policy: { name: 'from_the_future', options: {} } })
      const plain = admission()
      const talking = admission({ session: 's-1' })
      await opened.cluster.admit(plain)
      await opened.cluster.admit(talking)
      expect(await opened.cluster.decisions!.explain(plain.id)).toMatchObject({
        policy: 'qps',
        fallback: { from: 'from_the_future' },
      })
      expect(await opened.cluster.decisions!.explain(talking.id)).toMatchObject({ policy: 'session' })
    })

    it('a pool includes reported statistics in the digest, with their age', async () => {
      await opened.cluster.observe([probe('a', opened.now(), { stats: stats({ running: 3, waiting: 2 }) })])
      await opened.advance(5_000)
      const digest = await opened.cluster.digest()
      expect(digest.engines.find(({ id }) => id === 'a')?.stats).toMatchObject({ running: 3, waiting: 2, ageMs: 5_000 })
      expect(digest.engines.find(({ id }) => id === 'b')?.stats).toBeNull()
    })

    it('a pool names the engines that report requests of other sources', async () => {
      const reports = { a: stats({ running: 3, waiting: 2 }), b: stats({ running: 0, waiting: 0 }) }
      const observed = await opened.cluster.observe([
        probe('a', opened.now(), { stats: reports.a }),
        probe('b', opened.now(), { stats: reports.b }),
      ])
      expect(observed).toEqual(['a'])
    })

    it('a pool reads the cache size from the engine’s metrics, in blocks of the pool, unless it is configured', async () => {
      await restart({ engines: [engine('a'), engine('b', { cacheBlocks: 77 }), engine('c')] })
      const reported = { stats: stats({ blockTokens: 16, cacheBlocks: 2000 }) }
      await opened.cluster.observe([probe('a', opened.now(), reported), probe('b', opened.now(), reported)])
      const sizes = (await opened.cluster.digest()).engines.map(({ id, cacheBlocks }) => [id, cacheBlocks])
      // 2000 blocks of 16 tokens are 500 of 64.
      expect(sizes).toEqual([
        ['a', 500],
        ['b', 77],
        ['c', null],
      ])
    })

    it('a pool does not count time lost on another engine against an engine', async () => {
      await restart({ engines: engines('a') })
      const { lease } = await admitted(opened.cluster.admit(admission({ attempt: 1 })))
      await lease.firstToken({ ttft: 30_000, first_byte: 40 })
      const {
        engines: [a],
      } = await opened.cluster.digest()
      expect([a!.ttftMs, a!.learned?.ttftError ?? null]).toEqual([40, null])
    })

    it('a pool shows the last decisions, newest first, with the last TTFTs and the hit rate of every engine', async () => {
      await restart({ engines: engines('a') })
      for (const [id, ttft, cachedTokens] of [
        ['first', 40, 0],
        ['second', 20, 64],
      ] as const) {
        const { lease } = await admitted(opened.cluster.admit(admission({ id })))
        await lease.firstToken({ ttft })
        await lease.release(
          outcome({ stages: { ttft }, usage: { promptTokens: 128, completionTokens: 1, cachedTokens } }),
        )
      }
      const { digest, decisions } = await opened.cluster.overview!.summary(10)
      expect(decisions.map(({ id, candidates, actual }) => [id, candidates.length, actual?.ttftMs])).toEqual([
        ['second', 0, 20],
        ['first', 0, 40],
      ])
      expect(digest.engines[0]?.recentTtftMs).toEqual([40, 20])
      expect(digest.engines[0]?.hitRate).toBeCloseTo(0.25, 1)
      expect((await opened.cluster.overview!.summary(1)).decisions.map(({ id }) => id)).toEqual(['second'])
      expect((await opened.cluster.digest()).engines[0]?.recentTtftMs).toBeUndefined()
    })

    it('a pool keeps the last changes of the state of each engine, with time and reason', async () => {
      await restart({ engines: engines('a', 'b') })
      const changes = async () =>
        (await opened.cluster.digest()).engines.map(({ changes: all }) =>
          all?.map(({ aspect, to, reason }) => [aspect, to, reason]),
        )
      expect(await changes()).toEqual([undefined, undefined])
      const from = opened.now()
      await opened.cluster.observe([{ kind: 'drain', engine: 'a', draining: true }])
      await opened.cluster.observe([probe('b', opened.now(), { healthy: false, problem: 'connect' })])
      await opened.cluster.observe([{ kind: 'drain', engine: 'a', draining: false }])
      const seen = await changes()
      expect(seen[0]).toEqual([
        ['use', 'draining', undefined],
        ['use', 'serving', undefined],
      ])
      expect(seen[1]![0]).toEqual(['health', 'unhealthy', 'connect'])
      const { engines: own } = await opened.cluster.digest()
      for (const { at } of own[0]!.changes!) expect(at).toBeGreaterThanOrEqual(from)
    })

    it('a pool counts the output of streams that are not parsed by their estimate, or as long as usual', async () => {
      await restart({ engines: engines('a') })
      const usage = { promptTokens: 128, completionTokens: 8, cachedTokens: 0 }
      const ends = [
        ['unknown', { estimatedTokens: null }],
        ['read', { usage }],
        ['estimated', { estimatedTokens: 5 }],
        ['usual', { estimatedTokens: null }],
        ['broken', { estimatedTokens: null, result: 'client_gone' }],
      ] as const
      for (const [id, end] of ends) {
        const { lease } = await admitted(opened.cluster.admit(admission({ id })))
        await lease.firstToken({ ttft: 20, admit: 1 })
        await lease.release(outcome(end))
      }
      const { history } = await opened.cluster.overview!.summary(0)
      expect(mergeSteps(history!.steps).outputTokens).toBe(8 + 5 + 8)
    })

    it('a pool keeps the requests, first tokens and output of the last 15 minutes in steps', async () => {
      const slo = { ttftMs: 50, ttftMsPer1kTokens: null, itlMs: null }
      // The third block is not full.
      const completionTokens = 2.5 * pool().blockTokens
      await restart({ engines: engines('a'), slo })
      for (const [id, ttft] of [
        ['fast', 20],
        ['late', 80],
      ] as const) {
        const { lease } = await admitted(opened.cluster.admit(admission({ id })))
        await lease.firstToken({ ttft, admit: 1 })
        await lease.progress(3)
        await lease.release(
          outcome({ stages: { ttft }, usage: { promptTokens: 128, completionTokens, cachedTokens: 0 } }),
        )
      }
      const { digest, history } = await opened.cluster.overview!.summary(0)
      const step = mergeSteps(history!.steps)
      expect(step).toMatchObject({ requests: 2, outputTokens: 2 * completionTokens, judged: 2, late: 1 })
      expect(quantileOf(step.ttft, 1)).toBeCloseTo(80, -1)
      expect(step.queueS).not.toBeNull()
      const { stages } = mergeSlices(history!.slices)
      expect(Object.keys(stages).sort()).toEqual(['admit', 'ttft'])
      expect(await opened.cluster.overview!.summary(0, digest.at + 120_000)).toMatchObject({
        history: { steps: [], slices: [] },
      })
    })

    it('a pool keeps the last first tokens in sight while newer requests wait for theirs', async () => {
      await restart({ engines: engines('a') })
      const { lease } = await admitted(opened.cluster.admit(admission({ id: 'streams' })))
      await lease.firstToken({ ttft: 40 })
      for (const id of ['waits-1', 'waits-2']) await admitted(opened.cluster.admit(admission({ id })))
      const seen = async () => (await opened.cluster.overview!.summary(2)).measured
      expect((await opened.cluster.overview!.summary(2)).decisions.map(({ id }) => id)).toEqual(['waits-2', 'waits-1'])
      expect(await seen()).toMatchObject([
        { id: 'streams', firstToken: { ttftMs: 40, stages: { ttft: 40 } }, actual: null },
      ])
      await lease.release(outcome({ stages: { ttft: 40 } }))
      expect(await seen()).toMatchObject([{ id: 'streams', actual: { ttftMs: 40, result: 'complete' } }])
    })

    it('a pool numbers the digests of one incarnation in ascending order', async () => {
      const first = await opened.cluster.digest()
      const second = await opened.cluster.digest()
      expect(second.epoch).toBe(first.epoch)
      expect(second.seq).toBeGreaterThan(first.seq)
    })
  })

  async function restart(changes: Partial<PoolConfig>): Promise<void> {
    await opened.close()
    await start(changes)
  }

  const availability = async () => each(await opened.cluster.digest(), (one) => one.available)
  const circuits = async () => each(await opened.cluster.digest(), (one) => one.circuit)
}

function each<Value>(digest: PoolDigest, read: (one: PoolDigest['engines'][number]) => Value): Record<string, Value> {
  return Object.fromEntries(digest.engines.map((one) => [one.id, read(one)]))
}

export function requestsOf(digest: PoolDigest): Record<string, number> {
  return each(digest, (one) => one.requests)
}

/** The admitted whole placement, or an error with the refusal. */
export async function admitted(
  answer: Promise<AdmitResult>,
): Promise<{ readonly lease: Lease; readonly engine: string; readonly placement: Resume['placement'] }> {
  const given = await answer
  if ('refusal' in given) throw new Error(`refused: ${JSON.stringify(given.refusal)}`)
  if (given.placement.kind !== 'whole') throw new Error(`not whole: ${JSON.stringify(given.placement)}`)
  return { lease: given.lease, engine: given.placement.engine, placement: given.placement }
}

function refused(answer: AdmitResult): Refusal {
  if ('refusal' in answer) return answer.refusal
  throw new Error(`admitted: ${JSON.stringify(answer.placement)}`)
}

function resumeOf(request: Admission, placement: Resume['placement']): Resume {
  return { admission: request, placement, firstTokenSeen: false, outputBlocks: 0 }
}
