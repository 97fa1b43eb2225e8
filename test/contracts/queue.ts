/** Requests that wait for room in a pool, on any runtime. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Admission } from '../../src/core/contract/admission.ts'
import type { PoolConfig } from '../../src/core/contract/pool-config.ts'
import type { Refusal } from '../../src/core/contract/refusal.ts'
import { bookingKey } from '../../src/core/pool/bookings.ts'
import type { AdmitResult } from '../../src/ports/pool.ts'
import type { Lease } from '../../src/ports/lease.ts'
import { until } from '../wait.ts'
import { admitted, type OpenCluster, type Source } from './cluster.ts'
import { admission, engine, outcome, pool } from '../kit/pool-fixtures.ts'

const QUEUE = { maxRequests: 8, maxWaitMs: 5_000 }

export function queueContract(name: string, open: (source: Source) => Promise<OpenCluster>): void {
  let opened: OpenCluster
  let source: Source

  const start = async (changes: Partial<PoolConfig> = {}): Promise<void> => {
    source = { version: 1, pool: pool({ engines: [engine('a', { maxInFlight: 1 })], queue: QUEUE, ...changes }) }
    opened = await open(source)
  }
  const queued = async (): Promise<number | undefined> => (await opened.cluster.digest()).queue?.requests
  /** Takes the only place. */
  const occupy = async (): Promise<Lease> => (await admitted(opened.cluster.admit(admission()))).lease
  /** A request that waits. */
  async function waiting(changes: Partial<Admission> = {}): Promise<Wait> {
    const before = (await queued()) ?? 0
    const wait = new Wait(opened, admission(changes))
    await until(async () => wait.answer !== null || ((await queued()) ?? 0) > before)
    return wait
  }
  /** Ends the bookings of those who wait, one after the other, and returns their order. */
  async function served(lease: Lease, waits: readonly Wait[]): Promise<Wait[]> {
    const order: Wait[] = []
    let held = lease
    while (order.length < waits.length) {
      await held.release(outcome())
      const next = await until(() => waits.find((wait) => wait.answer !== null && !order.includes(wait)))
      order.push(next)
      held = next.lease
    }
    await held.release(outcome())
    return order
  }

  /** The host sees the clock advance in steps: a longer one would be a clock that was set. */
  async function pass(ms: number): Promise<void> {
    for (let passed = 0; passed < ms; passed += 500) {
      await opened.advance(500)
      await queued()
    }
  }

  beforeEach(() => start())
  afterEach(() => opened.close())

  describe(`${name}: queue`, () => {
    it('a refused request may wait, and gets the place that a booking leaves', async () => {
      const lease = await occupy()
      const request = admission()
      const refused = refusalOf(await opened.cluster.admit(request))
      expect([refused.reason, refused.mayWait]).toEqual(['engines_full', true])
      const wait = new Wait(opened, request)
      await until(async () => (await queued()) === 1)
      await opened.advance(1_000)
      expect((await opened.cluster.digest()).queue!.oldestMs).toBe(1_000)
      await lease.release(outcome())
      const { placement } = await wait.admitted()
      expect(placement).toMatchObject({ kind: 'whole', engine: 'a' })
      expect(await opened.cluster.decisions!.explain(request.id)).toMatchObject({ waitedMs: 1_000 })
      expect([(await opened.cluster.digest()).bookings, await queued()]).toEqual([1, 0])
      await wait.lease.release(outcome())
      expect((await opened.cluster.digest()).bookings).toBe(0)
    })

    it('without a queue, nobody waits, and a call to wait is answered at once', async () => {
      await opened.close()
      await start({ queue: null })
      await occupy()
      expect(refusalOf(await opened.cluster.admit(admission())).mayWait).toBeUndefined()
      expect(refusalOf(await opened.cluster.queue!.wait(admission(), 0)).reason).toBe('engines_full')
      expect(await queued()).toBeUndefined()
    })

    it('a retry and a hedge do not wait', async () => {
      await occupy()
      for (const changes of [{ attempt: 1 }, { attempt: 1, second: { kind: 'hedge' } as const }])
        expect(refusalOf(await opened.cluster.admit(admission(changes))).mayWait).toBeUndefined()
    })

    it('a request that has waited too long is refused, with the reason of its last check', async () => {
      await occupy()
      const wait = await waiting()
      await pass(QUEUE.maxWaitMs)
      expect((await wait.refused()).reason).toBe('engines_full')
      expect(await queued()).toBe(0)
      expect((await opened.cluster.digest()).decisions).toContainEqual(
        expect.objectContaining({ refused: 'engines_full', count: 1 }),
      )
    })

    it('time that was waited before counts, and a deadline of the client ends the wait earlier', async () => {
      await occupy()
      const wait = new Wait(opened, admission(), 4_000)
      const hasty = await waiting({ ttftDeadlineMs: 500 })
      await until(async () => (await queued()) === 2)
      await opened.advance(500)
      await hasty.refused()
      await opened.advance(500)
      await wait.refused()
    })

    it('a full queue refuses', async () => {
      await occupy()
      for (let at = 0; at < QUEUE.maxRequests; at++) await waiting()
      expect(refusalOf(await opened.cluster.queue!.wait(admission(), 0)).limit).toBe('queue')
      expect(await queued()).toBe(QUEUE.maxRequests)
    })

    it('a new request does not overtake those who wait, unless its class is more urgent', async () => {
      await opened.close()
      await start({ engines: [engine('a', { maxInFlight: 1 }), engine('b')] })
      const avoid = ['b']
      await admitted(opened.cluster.admit(admission({ avoid })))
      await waiting({ avoid })
      expect(refusalOf(await opened.cluster.admit(admission())).limit).toBe('queue')
      expect('refusal' in (await opened.cluster.admit(admission({ requestClass: 'critical' })))).toBe(false)
      // There is room for it, and none for those who wait.
      expect('refusal' in (await opened.cluster.queue!.wait(admission({ tenant: 'b' }), 0))).toBe(false)
    })

    it('equal requests are served in the order of their arrival', async () => {
      const lease = await occupy()
      const waits = [await waiting(), await waiting(), await waiting(), await waiting()]
      expect((await served(lease, waits)).map(({ request }) => request.id)).toEqual(
        waits.map(({ request }) => request.id),
      )
      expect([(await opened.cluster.digest()).bookings, await queued()]).toEqual([0, 0])
    })

    it('keys share the places by their weights, and short requests go first', async () => {
      const lease = await occupy()
      const waits: Wait[] = []
      for (const promptTokens of [30_000, 10_000, 20_000]) waits.push(await waiting({ tenant: 'a', promptTokens }))
      for (let at = 0; at < 3; at++) waits.push(await waiting({ tenant: 'b', keyWeight: 3, promptTokens: 20_000 }))
      const order = await served(lease, waits)
      expect(order.map((wait) => `${wait.request.tenant} ${wait.request.promptTokens / 1000}`)).toEqual([
        'a 10',
        'b 20',
        'b 20',
        'a 20',
        'b 20',
        'a 30',
      ])
    })

    it('a client that leaves costs nothing, before and after it has a place', async () => {
      const lease = await occupy()
      const [gone, next] = [await waiting({ promptTokens: 1 }), await waiting()]
      await opened.cluster.queue!.leave(bookingKey(gone.request))
      await gone.refused()
      expect(await queued()).toBe(1)
      await lease.release(outcome())
      await next.admitted()
      await opened.cluster.queue!.leave(bookingKey(next.request))
      expect([(await opened.cluster.digest()).bookings, await queued()]).toEqual([0, 0])
      await next.lease.release(outcome())
      await admitted(opened.cluster.admit(admission()))
      expect((await opened.cluster.digest()).bookings).toBe(1)
    })

    it('a departure that overtakes its request to wait ends it', async () => {
      await occupy()
      const request = admission()
      await opened.cluster.queue!.leave(bookingKey(request))
      expect(refusalOf(await opened.cluster.queue!.wait(request, 0)).limit).toBe('queue')
      expect(await queued()).toBe(0)
    })

    it('a request that asks again has one place in the queue, and one booking', async () => {
      const lease = await occupy()
      const first = await waiting()
      const again = new Wait(opened, first.request)
      await first.refused()
      expect(await queued()).toBe(1)
      await lease.release(outcome())
      await again.admitted()
      await new Wait(opened, first.request).admitted()
      expect((await opened.cluster.digest()).bookings).toBe(1)
    })

    it('a configuration without a queue answers all at once; another one lets them wait on', async () => {
      await occupy()
      const waits = [await waiting(), await waiting()]
      await opened.cluster.configure(2, { ...source.pool, queue: { maxRequests: 1, maxWaitMs: 1 } })
      expect(await queued()).toBe(2)
      await opened.cluster.configure(3, { ...source.pool, queue: null })
      for (const wait of waits) expect((await wait.refused()).limit).toBe('queue')
    })

    it('a configuration with more engines places those who wait', async () => {
      await occupy()
      const wait = await waiting()
      source.version = 2
      await opened.cluster.configure(2, { ...source.pool, engines: [engine('a', { maxInFlight: 1 }), engine('b')] })
      expect((await wait.admitted()).placement).toMatchObject({ engine: 'b' })
    })
  })
}

const refusalOf = (answer: AdmitResult): Refusal => {
  if ('refusal' in answer) return answer.refusal
  throw new Error('it was admitted')
}

class Wait {
  readonly request: Admission
  readonly #asking: Promise<AdmitResult>
  answer: AdmitResult | null = null

  constructor({ cluster }: OpenCluster, request: Admission, waitedMs = 0) {
    this.request = request
    this.#asking = cluster.queue!.wait(request, waitedMs).then((answer) => (this.answer = answer))
  }

  get lease(): Lease {
    if (this.answer === null || 'refusal' in this.answer) throw new Error('it was not admitted')
    return this.answer.lease
  }

  async admitted(): Promise<Exclude<AdmitResult, { readonly refusal: Refusal }>> {
    const answer = await this.#asking
    if ('refusal' in answer) throw new Error(answer.refusal.detail)
    return answer
  }

  async refused(): Promise<Refusal> {
    return refusalOf(await this.#asking)
  }
}
