/** Data-parallel ranks behind one address, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import { createFleet, type Fleet } from '../../packages/simulator/src/fleet.ts'
import { RankHost, type RankHostOptions } from '../../packages/simulator/src/node/rank-host.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { ADMIN_KEY, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { completion } from '../kit/sse.ts'
import { turns, until } from '../wait.ts'

const MODEL = 'm'

const ADMIN = { headers: { authorization: `Bearer ${ADMIN_KEY}` } }

const BUSY_SERVER = {
  error: {
    message: 'The engine is currently busy and cannot accept new requests. Please try again later.',
    type: 'Service Unavailable',
    code: 503,
  },
}

const BUSY_RANK = { object: 'error', message: 'The request queue is full.', type: '503', param: null, code: 503 }

/** A prompt of several blocks that is a conversation of its own. */
const promptOf = (name: string): string => `${name} `.repeat(200)

const CHAT = '/v1/chat/completions'

/** Ranks that the chats of clients had in their header, each once: the gateway itself sends completions. */
const chosenIn = (host: RankHost): (string | null)[] =>
  [...new Set(host.chosen.flatMap(({ path, rank }) => (path === CHAT ? [rank] : [])))].toSorted()

interface Server {
  readonly fleet: Fleet
  readonly host: RankHost
}

export function ranksContract(runtime: Runtime): void {
  const subject = `a gateway on ${runtimeNames[runtime]}`
  describe(`${subject} in front of ranks`, () => {
    const opened: { close(): Promise<void> }[] = []

    afterEach(async () => {
      for (const one of opened.splice(0).reverse()) await one.close()
    })

    async function openServer(count: number, options: RankHostOptions = {}): Promise<Server> {
      const fleet = createFleet({ engines: count, model: MODEL, profile: 'test' })
      const host = await RankHost.open(fleet.engines, options)
      opened.push({ close: () => host.close() }, { close: async () => fleet.stop() })
      return { fleet, host }
    }

    async function open(engine: object, pool: object = {}): Promise<TestGateway> {
      const gateway = await openGateway({
        runtime,
        engines: [{ id: 'a', ...engine }],
        pool: { stats_interval_ms: 100, policy: 'round_robin', ...pool },
      })
      opened.push(gateway)
      return gateway
    }

    const enginesOf = async (gateway: TestGateway) => (await gateway.fleet()).pools[0]!.engines

    const idsOf = async (gateway: TestGateway): Promise<unknown[]> => (await enginesOf(gateway)).map(({ id }) => id)

    const chat = async (gateway: TestGateway, content = 'hi', headers: Record<string, string> = {}) => {
      const response = await gateway.chat({ messages: [{ role: 'user', content }], max_tokens: 2 }, { headers })
      const json = (await response.json()) as { usage: { prompt_tokens_details: { cached_tokens: number } | null } }
      expect(response.status, JSON.stringify(json)).toBe(200)
      return {
        engine: response.headers.get('x-firstlight-engine'),
        cached: json.usage.prompt_tokens_details?.cached_tokens,
      }
    }

    /** Engines that answer, once both ranks have. */
    async function answering(gateway: TestGateway): Promise<unknown[]> {
      const engines = new Set<unknown>()
      await until(async () => engines.add((await chat(gateway)).engine).size === 2)
      return [...engines].toSorted()
    }

    it('a gateway in front of ranks makes each configured rank an engine and names it in the header', async () => {
      const { host } = await openServer(2)
      const gateway = await open({ url: host.url, data_parallel: 2 })
      expect(await answering(gateway)).toEqual(['a/0', 'a/1'])
      expect(chosenIn(host)).toEqual(['0', '1'])
    })

    it('a gateway in front of ranks sends local numbers to a node whose first rank is 4', async () => {
      const { host } = await openServer(2, { first: 4 })
      const gateway = await open({ url: host.url, data_parallel: { ranks: 2, first: 4 } })
      expect(await answering(gateway)).toEqual(['a/4', 'a/5'])
      expect(chosenIn(host)).toEqual(['0', '1'])
    })

    it('a gateway in front of ranks sends global numbers after the server has listed its ranks, and no client sees the refusal', async () => {
      const { host } = await openServer(2, { first: 4, numbering: 'global' })
      const gateway = await open({ url: host.url, data_parallel: { ranks: 2, first: 4 } })
      await chat(gateway)
      host.chosen.length = 0
      expect(await answering(gateway)).toEqual(['a/4', 'a/5'])
      expect(chosenIn(host)).toEqual(['4', '5'])
    })

    it('a gateway in front of ranks sends no rank of a client to an engine, in headers or in the body', async () => {
      const { host } = await openServer(2)
      const gateway = await open({ url: host.url, data_parallel: 2 }, { policy: 'least_loaded' })
      for (const name of ['X-data-parallel-rank', 'x_data_parallel_rank', 'x-override-routed-dp-rank']) {
        host.chosen.length = 0
        const { engine } = await chat(gateway, 'hi', { [name]: '7' })
        expect(chosenIn(host)).toContain(engine!.slice(2))
        expect(chosenIn(host)).not.toContain('7')
      }
      for (const field of ['routed_dp_rank', 'data_parallel_rank'])
        expect((await gateway.chat({ [field]: 1 })).status).toBe(400)
    })

    it('a gateway in front of ranks finds the ranks of a server in its metrics, and reads them once for all', async () => {
      const { host, fleet } = await openServer(2, { first: 4 })
      const gateway = await open({ url: host.url, data_parallel: 'auto' })
      await chat(gateway)
      await until(async () => String(await idsOf(gateway)) === 'a/0,a/1')
      host.chosen.length = 0
      expect(await answering(gateway)).toEqual(['a/0', 'a/1'])
      expect(chosenIn(host)).toEqual(['0', '1'])
      const blocks = fleet.engines[0]!.settings.limits.cacheBlocks
      for (const { stats } of await enginesOf(gateway)) expect(stats).toMatchObject({ cache_blocks: blocks })
      const calls = (path: string): number => host.calls.filter((call) => call === `GET ${path}`).length
      // Each probe of the server begins with its health.
      expect(calls('/metrics')).toBeLessThanOrEqual(calls('/health'))
    })

    it('a gateway in front of ranks answers at another rank if the server has fewer than configured', async () => {
      const { host } = await openServer(2)
      const gateway = await open({ url: host.url, data_parallel: 4 })
      const refused = (): boolean => chosenIn(host).includes('3')
      await until(async () => {
        expect(['a/0', 'a/1']).toContain((await chat(gateway)).engine)
        return refused()
      })
    })

    it('a gateway in front of ranks finds the ranks of SGLang without metrics', async () => {
      const load = { num_running_reqs: 0, num_waiting_reqs: 0 }
      const loads = [0, 1].map((rank) => ({ dp_rank: rank, ...load, num_running_reqs: rank }))
      const engine = await FakeEngine.open({
        'GET /metrics': { status: 404 },
        'GET /v1/loads': { body: { loads } },
        [`POST ${CHAT}`]: { body: completion('hello') },
      })
      opened.push(engine)
      const gateway = await open({ url: engine.url, type: 'sglang', data_parallel: 'auto' })
      expect((await gateway.chat()).status).toBe(200)
      await until(async () => String(await idsOf(gateway)) === 'a/0,a/1')
      expect(await enginesOf(gateway)).toMatchObject([{ stats: { running: 0 } }, { stats: { running: 1 } }])
    })

    it('a gateway in front of ranks follows the number of ranks, without an end of a running stream', async () => {
      const { host, fleet } = await openServer(4)
      host.ranks = fleet.engines.slice(0, 2)
      const gateway = await open({ url: host.url, data_parallel: 'auto' })
      await chat(gateway)
      await until(async () => (await idsOf(gateway)).length === 2)
      const stream = await gateway.chat({ stream: true, max_tokens: 2000, ignore_eos: true })
      host.ranks = fleet.engines
      const grown = async (): Promise<boolean> => {
        await chat(gateway)
        return (await idsOf(gateway)).length === 4
      }
      await until(grown)
      host.ranks = fleet.engines.slice(0, 2)
      await until(async () => !(await grown()) && (await idsOf(gateway)).length === 2)
      expect((await stream.text()).trim().endsWith('data: [DONE]')).toBe(true)
    })

    it('a gateway in front of ranks keeps a prompt on the rank that has it cached', async () => {
      const { host } = await openServer(2)
      const gateway = await open({ url: host.url, data_parallel: 2 }, { policy: 'prefix' })
      const names: string[] = []
      const first: Awaited<ReturnType<typeof chat>>[] = []
      while (new Set(first.map(({ engine }) => engine)).size < 2) {
        const more = Array.from({ length: 4 }, (_, at) => `n${names.length + at}`)
        names.push(...more)
        first.push(...(await Promise.all(more.map((name) => chat(gateway, promptOf(name))))))
      }
      await gateway.idle()
      for (const [at, name] of names.entries()) {
        const again = await chat(gateway, promptOf(name))
        expect(again.engine).toBe(first[at]!.engine)
        expect(again.cached).toBeGreaterThan(0)
      }
    })

    it('a gateway in front of ranks drains all ranks with their server, or one of them', async () => {
      const { host } = await openServer(2)
      const other = await openServer(1)
      const gateway = await openGateway({
        runtime,
        engines: [
          { id: 'a', url: host.url, data_parallel: 2 },
          { id: 'b', url: other.host.url },
        ],
        pool: { policy: 'round_robin' },
      })
      opened.push(gateway)
      const post = (path: string): Promise<Response> => gateway.post(`/v1/firstlight/engines/${path}`, {}, ADMIN)
      const used = async (): Promise<string> => {
        const engines = new Set<string | null>()
        for (let sent = 0; sent < 6; sent++) engines.add((await chat(gateway)).engine)
        return [...engines].toSorted().join()
      }
      expect(await used()).toBe('a/0,a/1,b')
      expect((await post('a/1/drain')).status).toBe(200)
      expect(await used()).toBe('a/0,b')
      expect((await post('a/drain')).status).toBe(200)
      expect(await used()).toBe('b')
      // The dashboard encodes ids.
      expect((await post('a%2F1/undrain')).status).toBe(200)
      expect(await used()).toBe('a/1,b')
      expect((await post('a/undrain')).status).toBe(200)
      expect(await used()).toBe('a/0,a/1,b')
      const unknown = await post('a/2/drain')
      expect([unknown.status, await unknown.text()]).toEqual([404, expect.stringContaining("'a/2'")])
    })

    it('a gateway in front of ranks asks no other rank of a server that refuses connections', async () => {
      const { host } = await openServer(4)
      const other = await openServer(1)
      const gateway = await openGateway({
        runtime,
        engines: [
          { id: 'a', url: host.url, data_parallel: 4 },
          { id: 'b', url: other.host.url },
        ],
        // No probe finds it out first.
        pool: { policy: 'round_robin', circuit: { failures: 1 }, stats_interval_ms: 3_600_000 },
      })
      opened.push(gateway)
      await chat(gateway)
      await until(async () => (await enginesOf(gateway)).every(({ stats }) => stats !== null))
      await host.close()
      const failures = async (): Promise<number> =>
        (await enginesOf(gateway)).reduce((sum, { failures_total: total }) => sum + Number(total), 0)
      let sent = 0
      for (; (await failures()) === 0; sent++) expect((await chat(gateway)).engine).toBe('b')
      expect(await failures()).toBe(1)
      for (; sent < 10; sent++) expect((await chat(gateway)).engine).toBe('b')
      // A Worker cannot tell a refused connection from a reset one, for which few circuits open at once.
      if (runtime === 'node') expect(await failures()).toBe(1)
    })

    it.each([
      ['vllm', 'the server', BUSY_SERVER, 1],
      ['sglang', 'a rank', BUSY_RANK, 2],
    ])(
      'a gateway in front of ranks asks as many ranks of a full server as may have room: the limit of %s is that of %s',
      async (...given) => {
        const [type, , refusal, calls] = given
        const engine = await FakeEngine.open({ 'POST *': { status: 503, body: refusal } })
        opened.push(engine)
        const gateway = await open({ url: engine.url, type, data_parallel: 2 })
        expect((await gateway.chat()).status).toBe(429)
        expect(engine.posts.filter(({ path }) => path === CHAT)).toHaveLength(calls)
      },
    )

    it('a gateway in front of ranks makes one engine of the ranks if the server ignores their header', async () => {
      const { host } = await openServer(2, { ignoresHeader: true })
      const gateway = await open({ url: host.url, data_parallel: 'auto' }, { policy: 'session' })
      await chat(gateway)
      await until(async () => (await idsOf(gateway)).length === 2)
      let sent = 0
      const isMerged = async (): Promise<boolean> => {
        for (let more = 0; more < 5; more++, sent++) await chat(gateway, 'hi', { 'x-session-id': 's' })
        return String(await idsOf(gateway)) === 'a'
      }
      await until(isMerged)
      await turns(1)
      expect(await enginesOf(gateway)).toMatchObject([{ id: 'a', ignores_ranks: true }])
      host.chosen.length = 0
      await chat(gateway)
      expect(chosenIn(host)).toEqual([null])
      if (runtime === 'node') expect(gateway.logged('ranks_ignored')).toMatchObject([{ engine: 'a', ranks: 2 }])
    })

    it('a gateway in front of ranks continues a stored response at any rank of its server', async () => {
      const { host } = await openServer(2)
      const gateway = await open({ url: host.url, data_parallel: 2 })
      const created = await gateway.post('/v1/responses', { model: MODEL, input: 'hi', store: true })
      const { id } = (await created.json()) as { id: string }
      expect(created.status).toBe(200)
      expect(host.calls).toContain('POST /v1/responses')
      const again = await fetch(`${gateway.url}/v1/responses/${id}`)
      // The simulator keeps responses per rank, and the gateway asks its server.
      expect(host.calls).toContain(`GET /v1/responses/${id}`)
      await again.text()
    })
  })
}
