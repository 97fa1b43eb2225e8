/** Split requests of SGLang: a prefill and a decode engine that meet in a room, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import type { FakeAnswer, Route } from '../kit/fake-answer.ts'
import { SILENCE } from '../kit/fake-answer.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { CHAT, MODEL, openGateway, type Runtime, runtimeNames } from '../kit/gateway.ts'
import { completion, DONE, sseAnswer, token } from '../kit/sse.ts'
import { until } from '../wait.ts'

const FIELDS = ['bootstrap_host', 'bootstrap_port', 'bootstrap_room'] as const

/** Bootstrap servers: a leg goes on when the other leg of its room has arrived. */
class Rooms {
  readonly #rooms = new Map<unknown, Map<string, PromiseWithResolvers<void>>>()

  /** Resolves when both legs are there. */
  async meet(room: unknown, own: 'prefill' | 'decode'): Promise<void> {
    const arrivals =
      this.#rooms.get(room) ?? new Map(['prefill', 'decode'].map((leg) => [leg, Promise.withResolvers()]))
    this.#rooms.set(room, arrivals)
    arrivals.get(own)!.resolve()
    await Promise.all([...arrivals.values()].map(({ promise }) => promise))
  }
}

const failing: FakeAnswer = { status: 500, body: { object: 'error', message: 'Internal error', code: 500 } }
const full: FakeAnswer = { status: 503, body: { object: 'error', message: 'The request queue is full.', code: 503 } }
const refusing: FakeAnswer = {
  status: 400,
  body: { object: 'error', message: 'temperature must be non-negative', type: 'BadRequest', code: 400 },
}

/** Answers that were received in full. Legs of failed pairs are not among them. */
const completed = ({ posts }: FakeEngine): number => posts.filter(({ state }) => state === 'complete').length

export function sglangPairsContract(runtime: Runtime): void {
  describe(`pairs of SGLang engines, behind a gateway on ${runtimeNames[runtime]}`, () => {
    const opened: { close(): Promise<unknown> }[] = []

    afterEach(async () => {
      for (const one of opened.splice(0).reverse()) await one.close()
    })

    async function site(
      ids: readonly string[],
      pool: Readonly<Record<string, unknown>> = {},
      ofPrefill: Readonly<Record<string, unknown>> = {},
      config: Readonly<Record<string, unknown>> = {},
    ) {
      const rooms = new Rooms()
      const meeting =
        (leg: 'prefill' | 'decode', text: string): Route =>
        async ({ json }) => {
          await rooms.meet(json['bootstrap_room'], leg)
          return json['stream'] === true ? sseAnswer([token(text), DONE]) : { body: completion(text) }
        }
      const engines: Record<string, FakeEngine> = {}
      for (const id of ids)
        engines[id] = await FakeEngine.open({
          'POST *': meeting(id.startsWith('p') ? 'prefill' : 'decode', `from ${id}`),
        })
      const gateway = await openGateway({
        runtime,
        engines: ids.map((id) => ({
          id,
          url: engines[id]!.url,
          type: 'sglang',
          ...(id.startsWith('p') ? { role: 'prefill', ...ofPrefill } : { role: 'decode' }),
        })),
        pool: {
          policy: 'round_robin',
          retry: { share: 1, min_per_s: 1000 },
          circuit: { failures: 1000 },
          stats_interval_ms: 60_000,
          ...pool,
          split: { connector: 'sglang', ...(pool['split'] as object | undefined) },
        },
        config,
      })
      opened.push(...Object.values(engines), gateway)
      const failures = async (id: string) => (await gateway.engines())[id]!['failures_total']
      return { engines, gateway, failures }
    }

    it('get the same request at once, with one room at the prefill engine', async () => {
      const { engines, gateway } = await site(['p0', 'd0'])
      const answer = await gateway.chat({ temperature: 0.5 })
      expect(answer.status).toBe(200)
      expect(await answer.json()).toEqual(completion('from d0'))
      const [prefill, decode] = [engines['p0']!.posts[0]!.json, engines['d0']!.posts[0]!.json]
      expect(decode).toMatchObject({ temperature: 0.5, bootstrap_host: '127.0.0.1', bootstrap_port: 8998 })
      expect(decode['bootstrap_room']).toEqual(expect.any(Number))
      expect(Number.isSafeInteger(decode['bootstrap_room'])).toBe(true)
      expect(prefill).toEqual(decode)
      await gateway.chat()
      expect(engines['p0']!.posts[1]!.json['bootstrap_room']).not.toBe(decode['bootstrap_room'])
      await gateway.idle()
    })

    it('stream from the decode engine, while the prefill engine answers as a whole', async () => {
      const { engines, gateway } = await site(['p0', 'd0'], {
        split: { sglang: { bootstrap_port: 9000, bootstrap_ports: { p0: 9001 } } },
      })
      const answer = await gateway.chat({ stream: true, stream_options: { include_usage: true } })
      expect(await answer.text()).toBe(token('from d0') + DONE)
      const [prefill, decode] = [engines['p0']!.posts[0]!.json, engines['d0']!.posts[0]!.json]
      expect(prefill).toMatchObject({ stream: false, bootstrap_port: 9001 })
      expect(prefill).not.toHaveProperty('stream_options')
      expect(decode).toMatchObject({ stream: true, stream_options: { include_usage: true }, bootstrap_port: 9001 })
      await gateway.idle()
    })

    it('name the data-parallel rank of the prefill to both engines', async () => {
      const { engines, gateway } = await site(
        ['p0', 'd0'],
        { split: { sglang: { bootstrap_ports: { p0: 9001 } } } },
        { data_parallel: 2 },
      )
      for (let sent = 0; sent < 4; sent++) expect((await gateway.chat()).status).toBe(200)
      const ranks = engines['p0']!.posts.map(({ headers }) => Number(headers['x-data-parallel-rank']))
      expect(new Set(ranks)).toEqual(new Set([0, 1]))
      const decodes = engines['d0']!.posts.map(({ json }) => json)
      expect(decodes.map((json) => json['disagg_prefill_dp_rank'])).toEqual(ranks)
      expect(decodes.map((json) => json['bootstrap_port'])).toEqual([9001, 9001, 9001, 9001])
      await gateway.idle()
    })

    it('pairs of SGLang engines are left for another pair if the prefill engine fails, which alone is at fault', async () => {
      const { engines, gateway, failures } = await site(['p0', 'p1', 'd0'])
      engines['p0']!.routes['POST *'] = failing
      for (let sent = 0; sent < 4; sent++) expect((await gateway.chat()).status).toBe(200)
      expect(engines['p0']!.posts.length).toBeGreaterThan(0)
      await gateway.idle()
      expect(await failures('p0')).toBe(engines['p0']!.posts.length)
      expect(await failures('d0')).toBe(0)
      await until(() => engines['d0']!.running === 0)
      expect(completed(engines['d0']!)).toBe(4)
    })

    it.each([
      ['fails', failing],
      ['is full', full],
    ])('end the prefill if the decode engine %s, and another pair serves', async (_what, answer) => {
      const { engines, gateway, failures } = await site(['p0', 'd0', 'd1'])
      engines['d0']!.routes['POST *'] = answer
      for (let sent = 0; sent < 4; sent++) expect((await gateway.chat()).status).toBe(200)
      const refused = engines['d0']!.posts.length
      expect(refused).toBeGreaterThan(0)
      await gateway.idle()
      await until(() => engines['p0']!.running === 0)
      expect(completed(engines['p0']!)).toBe(4)
      expect(await failures('p0')).toBe(0)
      expect(await failures('d0')).toBe(answer === failing ? refused : 0)
    })

    it('stream on if the prefill engine dies after the transfer', async () => {
      const { engines, gateway, failures } = await site(['p0', 'p1', 'd0'])
      const [begun, died] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      for (const id of ['p0', 'p1'])
        engines[id]!.routes['POST *'] = async () => {
          await begun.promise
          return { raw: '', end: 'reset' }
        }
      engines['d0']!.routes['POST *'] = sseAnswer([token('from d0'), died.promise, DONE])
      const answer = await gateway.chat({ stream: true })
      const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
      expect((await reader.read()).value).toBe(token('from d0'))
      begun.resolve()
      await until(() => engines['p0']!.running + engines['p1']!.running === 0)
      // The gateway sees the end of the connection before it answers another request.
      expect((await gateway.get('/health')).status).toBe(200)
      died.resolve()
      let rest = ''
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) rest += piece.value
      expect(rest).toBe(DONE)
      await gateway.idle()
      expect(engines['d0']!.posts).toHaveLength(1)
      expect(await failures('d0')).toBe(0)
    })

    it('send the refusal of a prefill engine to the client, and do not wait for the decode engine', async () => {
      const { engines, gateway, failures } = await site(['p0', 'd0'])
      engines['p0']!.routes['POST *'] = refusing
      engines['d0']!.routes['POST *'] = SILENCE
      const answer = await gateway.chat()
      expect([answer.status, await answer.json()]).toEqual([400, refusing.body])
      await gateway.idle()
      expect(await failures('p0')).toBe(0)
      expect(await failures('d0')).toBe(0)
    })

    it('serve a request of another protocol whole, and say why', async () => {
      const { engines, gateway } = await site(['p0', 'd0'])
      engines['d0']!.routes['POST *'] = { body: { id: 'resp_1', object: 'response', output: [], status: 'completed' } }
      const answer = await gateway.post('/v1/responses', { model: MODEL, input: 'hi' })
      expect(answer.status).toBe(200)
      expect(engines['p0']!.posts).toHaveLength(0)
      for (const field of FIELDS) expect(engines['d0']!.posts[0]!.json).not.toHaveProperty(field)
      const decision = await gateway.get(`/v1/firstlight/decisions/${answer.headers.get('x-request-id')}`)
      expect(((await decision.json()) as { split: unknown }).split).toEqual({
        taken: false,
        why: 'cannot be split: sglang splits chats and completions only',
      })
    })

    it('pairs of SGLang engines never get a room of a client', async () => {
      const { engines, gateway } = await site(['p0', 'd0'])
      for (const field of FIELDS) {
        const answer = await gateway.chat({ [field]: 'of-the-client' })
        expect(answer.status).toBe(400)
        expect(await answer.text()).toContain(field)
      }
      const headers = { 'x-override-bootstrap-host': 'of-the-client' }
      expect((await gateway.chat({}, { headers })).status).toBe(200)
      for (const id of ['p0', 'd0'])
        for (const { raw } of engines[id]!.posts) expect(raw).not.toContain('of-the-client')
    })

    it('pairs of SGLang engines never get a room of a client, whatever fields the operator lets pass', async () => {
      const { engines, gateway } = await site(['p0', 'd0'], {}, {}, { limits: { denied_fields: [] } })
      for (const id of ['p0', 'd0']) engines[id]!.routes['POST *'] = { body: completion() }
      const forged = Object.fromEntries(FIELDS.map((field) => [field, 'of-the-client']))
      for (const more of [forged, { ...forged, n: 2 }]) expect((await gateway.chat(more)).status).toBe(200)
      for (const id of ['p0', 'd0'])
        for (const { text } of engines[id]!.posts) expect(text).not.toContain('of-the-client')
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
