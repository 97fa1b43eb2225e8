/** Split requests over vLLM's MooncakeConnector: two engines that meet by a transfer id, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import { SILENCE, type FakeAnswer, type Route } from '../kit/fake-answer.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { CHAT, openGateway, type Runtime, runtimeNames } from '../kit/gateway.ts'
import { completion, DONE, sseAnswer, token } from '../kit/sse.ts'
import { until } from '../wait.ts'

const failing: FakeAnswer = {
  status: 500,
  body: { error: { message: 'boom', type: 'InternalServerError', code: 500 } },
}
const refusing: FakeAnswer = {
  status: 400,
  body: { error: { message: 'bad temperature', type: 'BadRequestError', code: 400 } },
}

const paramsOf = ({ json }: { readonly json: Readonly<Record<string, unknown>> }) =>
  json['kv_transfer_params'] as Readonly<Record<string, unknown>>

const chatsAt = ({ posts }: FakeEngine) => posts.filter(({ path }) => path === '/v1/chat/completions')

/** Answer of a bootstrap server, in the form of vLLM's `MooncakeBootstrapServer.query`. */
const query = (...ids: readonly string[]): FakeAnswer => ({
  body: Object.fromEntries(
    ids.map((id, rank) => [rank, { engine_id: id, worker_addr: { 0: { 0: '10.0.0.1:40000' } } }]),
  ),
})

export function mooncakePairsContract(runtime: Runtime): void {
  describe(`pairs of vLLM engines with Mooncake, behind a gateway on ${runtimeNames[runtime]}`, () => {
    const opened: { close(): Promise<unknown> }[] = []

    afterEach(async () => {
      for (const one of opened.splice(0).reverse()) await one.close()
    })

    async function site(ids: readonly string[], ofPrefill: Readonly<Record<string, unknown>> = {}) {
      /** Legs that have arrived, by transfer id. */
      const arrivals = new Map<unknown, Set<string>>()
      const meeting =
        (id: string): Route =>
        async (request) => {
          const { transfer_id: transfer } = paramsOf(request)
          const legs = arrivals.get(transfer) ?? new Set()
          arrivals.set(transfer, legs.add(id[0]!))
          await until(() => legs.size === 2 || request.state === 'aborted')
          return request.json['stream'] === true
            ? sseAnswer([token(`from ${id}`), DONE])
            : { body: completion(`from ${id}`) }
        }
      const engines: Record<string, FakeEngine> = {}
      for (const id of ids)
        engines[id] = await FakeEngine.open({ 'POST *': meeting(id), 'GET /query': query(`engine-of-${id}`) })
      const portOf = (id: string): number => Number(new URL(engines[id]!.url).port)
      const prefills = ids.filter((id) => id.startsWith('p'))
      const gateway = await openGateway({
        runtime,
        engines: ids.map((id) => ({
          id,
          url: engines[id]!.url,
          type: 'vllm',
          ...(id.startsWith('p') ? { role: 'prefill', ...ofPrefill } : { role: 'decode' }),
        })),
        pool: {
          policy: 'round_robin',
          retry: { share: 1, min_per_s: 1000 },
          circuit: { failures: 1000 },
          stats_interval_ms: 60_000,
          split: {
            mode: 'always',
            connector: 'mooncake',
            mooncake: { bootstrap_ports: Object.fromEntries(prefills.map((id) => [id, portOf(id)])) },
          },
        },
      })
      opened.push(...Object.values(engines), gateway)
      const failures = async (id: string) => (await gateway.engines())[id]!['failures_total']
      return { engines, gateway, failures }
    }

    it('get the request at once, with one transfer that the prefill engine pushes', async () => {
      const { engines, gateway } = await site(['p0', 'd0'])
      const answer = await gateway.chat({ max_tokens: 20, stream: true })
      expect(await answer.text()).toBe(token('from d0') + DONE)
      const [prefill, decode] = [chatsAt(engines['p0']!)[0]!, chatsAt(engines['d0']!)[0]!]
      const transfer = paramsOf(prefill)['transfer_id']
      expect(transfer).toMatch(/^xfer-\S{8,}$/)
      expect(prefill.json).toMatchObject({ stream: false, max_tokens: 1 })
      expect(paramsOf(prefill)).toEqual({ do_remote_decode: true, do_remote_prefill: false, transfer_id: transfer })
      expect(decode.json).toMatchObject({ stream: true, max_tokens: 20 })
      expect(paramsOf(decode)).toEqual({
        do_remote_decode: false,
        do_remote_prefill: true,
        remote_bootstrap_addr: engines['p0']!.url,
        remote_engine_id: 'engine-of-p0',
        transfer_id: transfer,
      })
      expect((await gateway.chat()).status).toBe(200)
      expect(paramsOf(chatsAt(engines['p0']!)[1]!)['transfer_id']).not.toBe(transfer)
      await gateway.idle()
    })

    it('name the engine id of the data-parallel rank that computes the prompt', async () => {
      const { engines, gateway } = await site(['p0', 'd0'], { data_parallel: { ranks: 2, first: 4 } })
      engines['p0']!.routes['GET /query'] = query('rank-4', 'rank-5')
      for (let sent = 0; sent < 4; sent++) expect((await gateway.chat()).status).toBe(200)
      const ranks = chatsAt(engines['p0']!).map(({ headers }) => Number(headers['x-data-parallel-rank']))
      expect(new Set(ranks)).toEqual(new Set([0, 1]))
      const ids = new Map(chatsAt(engines['d0']!).map((leg) => [paramsOf(leg)['transfer_id'], paramsOf(leg)]))
      for (const [at, leg] of chatsAt(engines['p0']!).entries())
        expect(ids.get(paramsOf(leg)['transfer_id'])!['remote_engine_id']).toBe(`rank-${4 + ranks[at]!}`)
      await gateway.idle()
    })

    it.each([
      ['fails', 'POST *', failing],
      ['has no bootstrap server', 'GET /query', { status: 404, body: {} }],
    ])(
      'a pair with Mooncake is left for another if the prefill engine %s, which alone is at fault',
      async (_what, route, answer) => {
        const { engines, gateway, failures } = await site(['p0', 'p1', 'd0'])
        engines['p0']!.routes[route] = answer
        for (let sent = 0; sent < 4; sent++) expect((await gateway.chat()).status).toBe(200)
        await gateway.idle()
        expect(await failures('p0')).toBeGreaterThan(0)
        expect([await failures('p1'), await failures('d0')]).toEqual([0, 0])
        await until(() => engines['d0']!.running === 0)
      },
    )

    it('end the prefill if the decode engine fails, and another pair serves', async () => {
      const { engines, gateway, failures } = await site(['p0', 'd0', 'd1'])
      engines['d0']!.routes['POST *'] = failing
      for (let sent = 0; sent < 4; sent++) expect((await gateway.chat()).status).toBe(200)
      expect(chatsAt(engines['d0']!).length).toBeGreaterThan(0)
      await gateway.idle()
      await until(() => engines['p0']!.running === 0)
      expect(await failures('p0')).toBe(0)
    })

    it('send the refusal of a prefill engine to the client, and do not wait for the decode engine', async () => {
      const { engines, gateway, failures } = await site(['p0', 'd0'])
      engines['p0']!.routes['POST *'] = refusing
      engines['d0']!.routes['POST *'] = SILENCE
      const answer = await gateway.chat()
      expect([answer.status, await answer.json()]).toEqual([400, refusing.body])
      await gateway.idle()
      expect([await failures('p0'), await failures('d0')]).toEqual([0, 0])
    })

    it('pairs of vLLM engines with Mooncake never get a transfer of a client', async () => {
      const { engines, gateway } = await site(['p0', 'd0'])
      const forged = { do_remote_prefill: true, remote_bootstrap_addr: 'http://of-the-client', transfer_id: 'x' }
      expect((await gateway.chat({ kv_transfer_params: forged })).status).toBe(200)
      for (const id of ['p0', 'd0']) {
        const [leg, ...others] = chatsAt(engines[id]!)
        expect(others).toEqual([])
        expect(leg!.text).not.toContain('of-the-client')
      }
      await gateway.idle()
    })

    it('both end when the client leaves', async () => {
      const { engines, gateway, failures } = await site(['p0', 'd0'])
      for (const id of ['p0', 'd0']) engines[id]!.routes['POST *'] = SILENCE
      const leaving = new AbortController()
      const left = gateway.leave(CHAT, leaving.signal)
      await until(() => engines['p0']!.running + engines['d0']!.running === 2)
      leaving.abort()
      await left
      await until(() => engines['p0']!.aborted + engines['d0']!.aborted === 2)
      await gateway.idle()
      expect([await failures('p0'), await failures('d0')]).toEqual([0, 0])
    })
  })
}
