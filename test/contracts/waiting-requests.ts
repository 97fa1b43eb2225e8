/** Requests that wait for room, from the client's side, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import { until } from '../wait.ts'
import { lmcacheKeys, type LmcacheWorld, type OpenLmcache, type PoolDocument } from './lmcache.ts'

const BUSY_MS = 400
/** Long enough for a reload on a busy machine. */
const LONG_MS = 2_000
const poolOf = (document: PoolDocument): PoolDocument => ({ policy: 'least_loaded', max_waiting: 1, ...document })
const CHAT = '/v1/chat/completions'
const PROMPT = 'Hello from a client that waits'
const admin = { authorization: `Bearer ${lmcacheKeys.admin}` }

export function waitingRequestsContract(runtime: string, open: OpenLmcache): void {
  let world: LmcacheWorld | null = null
  let busy: Promise<unknown>[] = []
  afterEach(async () => {
    await Promise.all(busy)
    await world?.close()
    world = null
  })

  const ask = (init: RequestInit = {}, key: keyof typeof lmcacheKeys = 'free'): Promise<Response> =>
    world!.send(CHAT, {
      method: 'POST',
      headers: { authorization: `Bearer ${lmcacheKeys[key]}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'sim',
        messages: [{ role: 'user', content: PROMPT }],
        max_tokens: 1,
        stream: true,
      }),
      ...init,
    })
  /** Requests of clients: the gateway's trials of engines have another prompt. */
  const inference = (): number =>
    world!.fleet.engines.reduce(
      (sum, { log }) => sum + log.recent.filter(({ body }) => body.includes(PROMPT)).length,
      0,
    )
  const pool = async () => {
    const response = await world!.send('/v1/firstlight/fleet', { headers: admin })
    if (response.status !== 200) throw new Error(await response.text())
    return ((await response.json()) as { pools: { bookings: number; queue?: { requests: number } }[] }).pools[0]!
  }
  const waiting = async (): Promise<number | undefined> => (await pool()).queue?.requests

  /** A pool whose three engines are busy with one request each. */
  async function start(document: PoolDocument, busyMs = BUSY_MS): Promise<void> {
    world = await open({ service: async () => new Response(null, { status: 404 }), pool: () => poolOf(document) })
    for (const { settings } of world.fleet.engines)
      world.fleet.engine(settings.id).setFault({ kind: 'slow', delayMs: busyMs, count: 1 })
    busy = world.fleet.engines.map(async () => (await ask()).text())
    await until(async () => (await pool()).bookings === 3)
  }

  describe(`waiting for room, on ${runtime}`, () => {
    it('a request is served when there is room, and its answer tells how long it waited', async () => {
      await start({ queue: {} })
      const response = await ask()
      expect(response.status).toBe(200)
      expect(response.headers.get('server-timing')).toMatch(/gateway_queue;dur=\d/)
      await response.text()
      const id = response.headers.get('x-firstlight-decision')!.split(';')[0]!
      const decision = await world!.send(`/v1/firstlight/decisions/${id}`, { headers: admin })
      expect(((await decision.json()) as { waited_ms?: number }).waited_ms).toBeGreaterThanOrEqual(0)
      const metrics = await (await world!.send('/metrics', { headers: admin })).text()
      expect(metrics).toMatch(/firstlight_pool_waiting_requests\{[^}]*\} 0\n/)
      expect(inference()).toBe(4)
    })

    it('without a queue it is refused at once', async () => {
      await start({})
      const response = await ask()
      expect([response.status, await response.json()]).toMatchObject([429, { error: { code: 'overloaded' } }])
      expect(await waiting()).toBeUndefined()
    })

    it('after the longest wait it is refused, with a time for the next try', async () => {
      await start({ queue: { max_wait_ms: 1 } })
      const response = await ask()
      expect([response.status, await response.json()]).toMatchObject([429, { error: { code: 'overloaded' } }])
      expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
      expect(response.headers.get('server-timing')).not.toMatch(/first_byte/)
      await until(async () => (await waiting()) === 0)
    })

    it('a client that leaves while it waits reaches no engine', async () => {
      await start({ queue: { max_wait_ms: 10_000 } })
      const leaving = new AbortController()
      const pending = ask({ signal: leaving.signal }).catch(() => null)
      await until(async () => (await waiting()) === 1)
      leaving.abort()
      await pending
      await until(async () => (await waiting()) === 0)
      await Promise.all(busy)
      expect(inference()).toBe(3)
    })

    it('a reload lets them wait on, and places them by the new configuration', async () => {
      await start({ queue: { max_wait_ms: 10_000 } }, LONG_MS)
      const pending = [ask(), ask()]
      await until(async () => (await waiting()) === 2)
      await world!.reload({ pool: poolOf({ max_waiting: 2, queue: { max_requests: 1, max_wait_ms: 1 } }) })
      // On Workers, the pool state gets the configuration with the next request.
      const next = await ask()
      await next.text()
      expect((await Promise.all(pending)).map(({ status }) => status)).toEqual([200, 200])
      await Promise.all(pending.map(async (answer) => (await answer).text()))
      await until(async () => (await pool()).bookings === 0)
      expect(inference()).toBe(next.status === 200 ? 6 : 5)
    })

    it('a reload without a queue answers all of them', async () => {
      await start({ queue: { max_wait_ms: 10_000 } }, LONG_MS)
      const pending = [ask(), ask()]
      await until(async () => (await waiting()) === 2)
      await world!.reload({ pool: poolOf({}) })
      const next = await ask()
      expect([next, ...(await Promise.all(pending))].map(({ status }) => status)).toEqual([429, 429, 429])
      expect(inference()).toBe(3)
    })

    it('a key that is removed while its requests wait: 401, no engine, and others are served', async () => {
      await start({ queue: { max_wait_ms: 10_000 } }, LONG_MS)
      const removed = [ask({}, 'plain'), ask({}, 'plain')]
      const kept = ask()
      await until(async () => (await waiting()) === 3)
      await world!.reload({ pool: poolOf({ queue: { max_wait_ms: 10_000 } }), without: ['plain'] })
      for (const answer of removed) {
        const { status, headers } = await answer
        expect([status, headers.get('www-authenticate')]).toEqual([401, 'Bearer'])
      }
      await (await kept).text()
      expect((await kept).status).toBe(200)
      await until(async () => (await pool()).bookings === 0)
      expect([await waiting(), inference()]).toEqual([0, 4])
    })
  })
}
