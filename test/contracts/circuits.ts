import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Admission } from '../../src/core/contract/admission.ts'
import type { EngineDigest } from '../../src/core/contract/pool-digest.ts'
import type { Outcome } from '../../src/core/contract/outcome.ts'
import type { PoolConfig } from '../../src/core/contract/pool-config.ts'
import type { PoolPort } from '../../src/ports/pool.ts'
import type { Lease } from '../../src/ports/lease.ts'
import { admission, engines, failed, outcome, pool, probe } from '../kit/pool-fixtures.ts'
import { admitted, type OpenCluster, type Source } from './cluster.ts'

const OPEN_MS = 10_000
const NAMES = ['a', 'b', 'c', 'd'] as const
const LONG = 20_000

const error500: Outcome = { ...failed, failure: 'status_5xx', status: 500 }
const tooLate: Outcome = { ...failed, failure: 'first_byte_timeout' }

/** Circuit breakers of a pool: when they open, close and are ignored. */
export function circuitContract(name: string, open: (source: Source) => Promise<OpenCluster>): void {
  let opened: OpenCluster
  let cluster: PoolPort

  const start = async (changes: Partial<PoolConfig> = {}): Promise<void> => {
    const circuit = { failures: 3, openMs: OPEN_MS, maxEjectedShare: 1, panicShare: 0.1 }
    opened = await open({ version: 1, pool: pool({ circuit, engines: engines(...NAMES), ...changes }) })
    cluster = opened.cluster
  }
  const restart = async (changes: Partial<PoolConfig>): Promise<void> => {
    await opened.close()
    await start(changes)
  }
  const circuit = (changes: Partial<PoolConfig['circuit']>) => ({
    circuit: { failures: 3, openMs: OPEN_MS, maxEjectedShare: 1, panicShare: 0.1, ...changes },
  })
  const others = (id: string): string[] => NAMES.filter((one) => one !== id)
  const on = async (id: string, changes: Partial<Admission> = {}): Promise<Lease> =>
    (await admitted(cluster.admit(admission({ avoid: others(id), isLastResort: true, ...changes })))).lease
  /** Requests of these tenants fail if they are placed on the engine. */
  const failOn = async (id: string, how: Outcome, tenants: readonly string[]): Promise<void> => {
    for (const tenant of tenants) {
      const given = await cluster.admit(admission({ avoid: others(id), isLastResort: true, tenant }))
      if (!('refusal' in given)) await given.lease.release(how)
    }
  }
  const read = async <Value>(of: (one: EngineDigest) => Value): Promise<Record<string, Value>> =>
    Object.fromEntries((await cluster.digest()).engines.map((one) => [one.id, of(one)]))
  const states = () => read((one) => one.circuit)
  const isOpen = async (id: string): Promise<boolean> => (await states())[id] === 'open'
  const countOpen = async (): Promise<number> =>
    Object.values(await states()).filter((state) => state === 'open').length

  beforeEach(() => start())
  afterEach(() => opened.close())

  describe(`${name}: requests that time out`, () => {
    it('requests that time out open the circuit of an engine without progress since they were sent', async () => {
      const before = await on('a')
      await opened.advance(10)
      await before.firstToken({})
      const late = await on('a')
      await opened.advance(3_000)
      await late.release(tooLate)
      expect(await isOpen('a')).toBe(true)
    })

    it('requests that time out do not open the circuit of an engine that has started another response meanwhile', async () => {
      const late = await on('a')
      await opened.advance(1_000)
      await (await on('a')).firstToken({})
      await opened.advance(2_000)
      await late.release(tooLate)
      expect((await read((one) => [one.circuit, one.failuresTotal]))['a']).toEqual(['closed', 0])
    })

    it('requests that time out do not open the circuit of an engine that has moved another answer meanwhile', async () => {
      const other = await on('a')
      await other.firstToken({})
      await opened.advance(1_000)
      const late = await on('a')
      await opened.advance(1_000)
      await other.progress(2)
      await opened.advance(2_000)
      await late.release(tooLate)
      expect(await isOpen('a')).toBe(false)
    })

    it('requests that time out do not open the circuit of an engine that has completed another answer meanwhile', async () => {
      const late = await on('a')
      await opened.advance(1_000)
      await (await on('a')).release(outcome())
      await opened.advance(2_000)
      await late.release(tooLate)
      expect(await isOpen('a')).toBe(false)
    })

    it('requests that time out do not count against the engine if they do not stream', async () => {
      for (let index = 0; index < 9; index++) await (await on('a')).release({ ...failed, failure: 'answer_timeout' })
      expect((await read((one) => [one.circuit, one.failuresTotal]))['a']).toEqual(['closed', 0])
    })
  })

  describe(`${name}: how many circuits open`, () => {
    const mallory = ['mallory', 'mallory', 'mallory']
    const several = ['anne', 'bert', 'anne']

    it('failures of requests never open all circuits of a pool for one client, however its requests fail', async () => {
      for (const how of [error500, tooLate, { ...failed, failure: 'reset' as const }]) {
        for (const id of [...NAMES, ...NAMES]) await failOn(id, how, mallory)
        expect(await countOpen()).toBe(3)
        await restart({})
      }
    })

    it('failures of requests open all circuits of a pool if requests of several clients fail', async () => {
      for (const id of NAMES) await failOn(id, error500, several)
      expect(await countOpen()).toBe(4)
    })

    it('failures of requests open all circuits of a pool whose engines refuse connections, for any client', async () => {
      for (const id of NAMES) await failOn(id, failed, mallory)
      expect(await countOpen()).toBe(4)
    })

    it('not more than the configured share, except of engines that refuse connections', async () => {
      await restart(circuit({ maxEjectedShare: 0.5 }))
      for (const id of NAMES) await failOn(id, error500, several)
      expect(await states()).toEqual({ a: 'open', b: 'open', c: 'closed', d: 'closed' })
      await failOn('c', failed, several)
      expect(await isOpen('c')).toBe(true)
    })

    it('which the next placement reports once a minute, and a counter each time', async () => {
      await restart(circuit({ maxEjectedShare: 0.5 }))
      for (const id of ['a', 'b']) await failOn(id, error500, several)
      const withheld = await Promise.all(several.map((tenant) => on('c', { tenant })))
      for (const lease of withheld) await lease.release(error500)
      const event = { event: 'ejection_withheld', engine: 'c', limit: 'max_ejected_share' }
      expect(await cluster.admit(admission({ isLastResort: true }))).toMatchObject({ events: [event] })
      await (await on('c')).release(error500)
      expect(await cluster.admit(admission({ isLastResort: true }))).not.toHaveProperty('events')
      await opened.advance(60_001)
      await (await on('c')).release(error500)
      expect(await cluster.admit(admission({ isLastResort: true }))).toMatchObject({ events: [event] })
      expect((await read((one) => one.ejectionsWithheld))['c']).toBeGreaterThanOrEqual(3)
    })

    it('an open circuit ejects at least one engine, however small the share', async () => {
      await restart(circuit({ maxEjectedShare: 0 }))
      for (const id of NAMES) await failOn(id, error500, several)
      expect(await countOpen()).toBe(1)
    })

    it('an open circuit ejects more than that share if other clusters serve the request', async () => {
      await restart(circuit({ maxEjectedShare: 0 }))
      for (const id of NAMES)
        for (const tenant of several) await (await on(id, { tenant, isLastResort: false })).release(error500)
      expect(await countOpen()).toBe(4)
    })
  })

  describe(`${name}: panic mode`, () => {
    const openAll = async (): Promise<void> => {
      for (const id of NAMES) await failOn(id, failed, ['anne', 'anne', 'anne'])
      expect(await countOpen()).toBe(4)
    }
    const ask = (changes: Partial<Admission> = {}) => cluster.admit(admission(changes))

    it('panic mode tries engines although all circuits are open, and spreads the requests', async () => {
      await openAll()
      const chosen = new Set<string>()
      for (let index = 0; index < 12; index++) chosen.add((await admitted(ask({ isLastResort: true }))).engine)
      expect([...chosen].sort()).toEqual([...NAMES])
    })

    it('panic mode marks its decisions, counts them, and logs once a minute', async () => {
      await openAll()
      const first = await ask({ isLastResort: true, id: 'first' })
      const second = await ask({ isLastResort: true, id: 'second' })
      expect(first).toMatchObject({ events: [{ event: 'panic_mode', engine: expect.any(String) }] })
      expect(second).not.toHaveProperty('events')
      expect(await cluster.decisions!.explain('second')).toMatchObject({ panic: true })
      const { decisions = [] } = await cluster.digest()
      expect(decisions.filter(({ panic }) => panic).reduce((sum, { count }) => sum + count, 0)).toBe(2)
    })

    it('panic mode begins only if no other cluster can serve the request, and reports where it would', async () => {
      await openAll()
      expect(await ask()).toMatchObject({ refusal: { reason: 'engines_unavailable', mayPanic: true } })
    })

    it('panic mode closes a circuit with the first answer, and then ends', async () => {
      await openAll()
      await opened.advance(1)
      await (await on('b')).firstToken({})
      expect(await states()).toEqual({ a: 'open', b: 'closed', c: 'open', d: 'open' })
      for (let index = 0; index < 4; index++) expect((await admitted(ask({ isLastResort: true }))).engine).toBe('b')
    })

    it('panic mode does not prolong an open circuit by requests that fail before its time', async () => {
      await openAll()
      for (let index = 0; index < 20; index++) await (await on('a')).release(failed)
      await opened.advance(OPEN_MS)
      expect((await read((one) => one.available))['a']).toBe(true)
    })

    it('panic mode does not try engines that their health checks found down', async () => {
      await openAll()
      await cluster.observe(NAMES.map((id) => probe(id, opened.now(), { healthy: id === 'c' })))
      for (let index = 0; index < 4; index++) expect((await admitted(ask({ isLastResort: true }))).engine).toBe('c')
    })

    it('panic mode is off if its share is 0', async () => {
      await restart(circuit({ panicShare: 0 }))
      await openAll()
      expect(await ask({ isLastResort: true })).toMatchObject({ refusal: { reason: 'engines_unavailable' } })
    })

    it('panic mode begins earlier with a larger share', async () => {
      await restart(circuit({ panicShare: 0.8 }))
      await failOn('a', failed, ['anne', 'anne', 'anne'])
      const chosen = new Set<string>()
      for (let index = 0; index < 8; index++) chosen.add((await admitted(ask({ isLastResort: true }))).engine)
      expect(chosen.has('a')).toBe(true)
    })
  })

  describe(`${name}: half-open circuits`, () => {
    const openA = async (how: Outcome = failed): Promise<void> => {
      await restart(circuit({ panicShare: 0 }))
      await failOn('a', how, ['anne', 'bert', 'anne'].slice(how === tooLate ? 2 : 0))
      await opened.advance(OPEN_MS)
    }
    const tries = async (id: string): Promise<number> => {
      for (let count = 0; ; count++) {
        const given = await cluster.admit(admission({ avoid: others(id) }))
        if ('refusal' in given) return count
        if (count === 40) return Infinity
      }
    }

    it('half-open circuits admit short requests beside a long trial after a good health check', async () => {
      await openA()
      await on('a', { promptTokens: LONG })
      expect(await tries('a')).toBe(0)
      await cluster.observe([probe('a', opened.now())])
      const short = await on('a')
      await short.firstToken({})
      expect((await states())['a']).toBe('closed')
    })

    it('half-open circuits admit twice as many trials after each good health check, and close in the end', async () => {
      await openA()
      await on('a')
      const more: number[] = []
      for (let index = 0; index < 4; index++) {
        await opened.advance(1_000)
        await cluster.observe([probe('a', opened.now())])
        more.push(await tries('a'))
      }
      expect(more).toEqual([1, 2, 4, Infinity])
    })

    it('half-open circuits admit several trials at once after a restart that a health check has found', async () => {
      await openA()
      await cluster.observe([probe('a', opened.now(), { healthy: false })])
      await opened.advance(1_000)
      await cluster.observe([probe('a', opened.now())])
      expect(await tries('a')).toBe(4)
    })

    it('half-open circuits do not close for good health checks of an engine that hung', async () => {
      await openA(tooLate)
      await on('a')
      for (let index = 0; index < 9; index++) {
        await opened.advance(1_000)
        await cluster.observe([probe('a', opened.now())])
        await tries('a')
      }
      expect((await states())['a']).toBe('half_open')
    })

    it('half-open circuits open again when a trial fails', async () => {
      await openA()
      const trial = await on('a')
      await cluster.observe([probe('a', opened.now())])
      await on('a')
      await trial.release(failed)
      expect(await isOpen('a')).toBe(true)
    })

    it('half-open circuits leave long requests to other engines while a short one may come', async () => {
      await openA()
      const long = (): Promise<{ engine: string }> => admitted(cluster.admit(admission({ promptTokens: LONG })))
      for (let index = 0; index < 8; index++) expect((await long()).engine).not.toBe('a')
      expect((await states())['a']).toBe('open')
      expect((await admitted(cluster.admit(admission()))).engine).toBe('a')
    })

    it('half-open circuits accept a long request if no short one came for as long as the circuit was open', async () => {
      await openA()
      await opened.advance(OPEN_MS)
      const chosen = []
      for (let index = 0; index < 4; index++)
        chosen.push((await admitted(cluster.admit(admission({ promptTokens: LONG })))).engine)
      expect(chosen.sort()).toEqual([...NAMES])
    })
  })
}
