/** Names, lists and lengths of models as clients ask for them, on any runtime. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { openGateway, type Runtime, type TestGateway, runtimeNames } from '../kit/gateway.ts'
import { sseAnswer } from '../kit/sse.ts'
import { until } from '../wait.ts'

type Json = Readonly<Record<string, unknown>>

const BASE = 'org/Large-30B'
const KEYS = { all: 'key-for-all-models', exact: 'key-for-one-name', pattern: 'key-for-a-pattern' } as const
const ALIAS = 'claude-opus-4-8[1m]'
const LARGE_CONTEXT = 4_096
const SMALL_CONTEXT = 1_024

const event = (value: Json): string => `data: ${JSON.stringify(value)}\n\n`
const named = (value: Json): string => `event: ${String(value['type'])}\n${event(value)}`

/** Answers of an engine, with its own name of the model. `{}` in a text stands for a name that is not the answer's. */
interface Answers {
  readonly path: string
  readonly body: Json
  readonly whole: Json
  readonly stream: string
}

const decoy = { model: BASE, response: { model: BASE }, message: { model: BASE } }
const chunk = (more: Json): string =>
  event({
    id: 'c',
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta: { content: `"model":"${BASE}"` } }],
    ...more,
  })

const protocols: readonly (readonly [name: string, Answers])[] = [
  [
    'chat',
    {
      path: '/v1/chat/completions',
      body: { messages: [{ role: 'user', content: 'hi' }] },
      whole: { id: 'c', choices: [{ message: { content: 'a', extra: decoy } }], model: BASE },
      stream: `${chunk({ model: BASE })}: ping\n\n${chunk({ model: BASE, usage: null })}${event({ model: BASE, choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}data: [DONE]\n\n`,
    },
  ],
  [
    'completions',
    {
      path: '/v1/completions',
      body: { prompt: 'hi' },
      whole: { id: 'c', model: BASE, choices: [{ text: BASE }] },
      stream: `${event({ model: BASE, choices: [{ index: 0, text: 'a' }] })}${event({ model: BASE, choices: [{ index: 0, text: '', finish_reason: 'stop' }] })}data: [DONE]\n\n`,
    },
  ],
  [
    'responses',
    {
      path: '/v1/responses',
      body: { input: 'hi' },
      whole: { id: 'resp_1', object: 'response', metadata: decoy, model: BASE, output: [] },
      stream:
        named({
          type: 'response.created',
          sequence_number: 0,
          response: { id: 'resp_1', metadata: decoy, model: BASE },
        }) +
        named({ type: 'response.output_text.delta', sequence_number: 1, delta: 'a', model: BASE }) +
        named({
          type: 'response.completed',
          sequence_number: 2,
          response: { id: 'resp_1', status: 'completed', model: BASE, usage: { input_tokens: 1, output_tokens: 1 } },
        }),
    },
  ],
  [
    'messages',
    {
      path: '/v1/messages',
      body: { messages: [{ role: 'user', content: 'hi' }], max_tokens: 4 },
      whole: { type: 'message', content: [{ type: 'tool_use', input: decoy }], model: BASE },
      stream:
        named({ type: 'message_start', message: { id: 'm', content: [], model: BASE, usage: { input_tokens: 1 } } }) +
        named({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'a' }, model: BASE }) +
        named({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 1 } }) +
        named({ type: 'message_stop' }),
    },
  ],
  [
    'embeddings',
    {
      path: '/v1/embeddings',
      body: { input: 'hi' },
      whole: { object: 'list', data: [{ embedding: [0.5], extra: decoy }], model: BASE, usage: { prompt_tokens: 1 } },
      stream: '',
    },
  ],
]

/** Name of the answer replaced by hand: only the members that belong to the protocol. */
function expected(text: string, name: string): string {
  const own = (json: Json, isEvent: boolean): Json => {
    const inner = isEvent ? ['response', 'message'].find((key) => key in json && !('choices' in json)) : undefined
    if (inner !== undefined) return { ...json, [inner]: { ...(json[inner] as Json), model: name } }
    const isPart = isEvent && 'type' in json
    return 'model' in json && !isPart ? { ...json, model: name } : json
  }
  if (!text.includes('data: ')) return JSON.stringify(own(JSON.parse(text) as Json, false))
  return text
    .split('\n')
    .map((line) =>
      line.startsWith('data: {') ? `data: ${JSON.stringify(own(JSON.parse(line.slice(6)) as Json, true))}` : line,
    )
    .join('\n')
}

export function clientModelsContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  const engines: FakeEngine[] = []
  let gateway: TestGateway
  let large: FakeEngine
  let small: FakeEngine

  const models = (id: string, length: number): Json => ({
    object: 'list',
    data: [{ id, object: 'model', owned_by: 'vllm', root: id, parent: null, max_model_len: length }],
  })
  const engineOf = async (id: string, length: number): Promise<FakeEngine> => {
    const engine = await FakeEngine.open({
      'GET /v1/models': { body: models(id, length) },
      'POST *': { body: { id: 'x', model: id, choices: [{ message: { content: 'a' } }] } },
    })
    engines.push(engine)
    return engine
  }
  const pool = (model: string, urls: readonly FakeEngine[], more: object = {}) => ({
    model,
    stats_interval_ms: 100,
    engines: urls.map(({ url }, at) => ({ id: `${model.replace('/', '-')}-${at}`, url, type: 'vllm' })),
    ...more,
  })
  const get = (
    path: string,
    { key = 'all', headers = {} }: { key?: keyof typeof KEYS; headers?: Readonly<Record<string, string>> } = {},
  ) => fetch(gateway.url + path, { headers: { authorization: `Bearer ${KEYS[key]}`, ...headers } })
  const post = (
    path: string,
    body: Json,
    { key = 'all', at = gateway }: { key?: keyof typeof KEYS; at?: TestGateway } = {},
  ) => at.post(path, body, { headers: { authorization: `Bearer ${KEYS[key]}` } })
  const chat = (model: string, key: keyof typeof KEYS = 'all') =>
    post('/v1/chat/completions', { model, messages: [{ role: 'user', content: 'hi' }] }, { key })
  const modelAt = (engine: FakeEngine): unknown => (JSON.parse(engine.posts.at(-1)!.text) as Json)['model']

  beforeAll(async () => {
    large = await engineOf(BASE, SMALL_CONTEXT)
    const larger = await engineOf(BASE, LARGE_CONTEXT)
    small = await engineOf('small', SMALL_CONTEXT)
    gateway = await openGateway({
      runtime,
      config: {
        open: false,
        keys: [
          { name: 'all', secret: KEYS.all },
          { name: 'exact', secret: KEYS.exact, models: ['claude-sonnet-5'] },
          { name: 'pattern', secret: KEYS.pattern, models: ['claude-haiku-*'] },
        ],
        clusters: [
          {
            id: 'c',
            pools: [
              pool(BASE, [large, larger], {
                aliases: ['claude-*', 'coder'],
                adapters: ['claude-poet'],
                policy: 'round_robin',
              }),
              pool('small', [small], { aliases: ['claude-haiku-*', 'claude-opus-mini'] }),
            ],
          },
        ],
      },
    })
  })
  afterAll(async () => {
    await gateway.close()
    for (const engine of engines) await engine.close()
  })

  describe(`aliases by pattern, on ${name}`, () => {
    it.each([
      [ALIAS, BASE],
      ['claude-sonnet-4-5-20250929', BASE],
      ['claude-haiku-4-5', 'small'],
      ['claude-opus-mini', 'small'],
      ['claude-poet', 'claude-poet'],
    ])('%s is served as %s', async (requested, served) => {
      for (const engine of engines) engine.posts.length = 0
      const response = await chat(requested)
      expect(response.status).toBe(200)
      await response.text()
      const called = engines.filter(({ posts }) => posts.length > 0)
      expect(called.map(modelAt)).toEqual([served])
      expect(called[0] === small).toBe(served === 'small')
    })

    it.each(['claude', 'gpt-5', 'claude-with a space', `claude-${'x'.repeat(300)}`])(
      '%s is unknown',
      async (requested) => {
        const response = await chat(requested)
        const { error } = (await response.json()) as { error: { code: string; message: string } }
        expect([response.status, error.code]).toEqual([404, 'model_not_found'])
        expect(error.message).toContain('claude-*')
      },
    )

    it('aliases by pattern are open to a key that has the pattern or the name, and to no other', async () => {
      const statuses = async (key: keyof typeof KEYS) => {
        const all: number[] = []
        for (const model of ['claude-sonnet-5', 'claude-haiku-4-5', 'coder', ALIAS]) {
          const response = await chat(model, key)
          await response.text()
          all.push(response.status)
        }
        return all
      }
      expect(await statuses('exact')).toEqual([200, 404, 404, 404])
      expect(await statuses('pattern')).toEqual([404, 200, 404, 404])
    })
  })

  describe(`lists of models, on ${name}`, () => {
    const cards = async (): Promise<readonly Json[]> =>
      ((await (await get('/v1/models')).json()) as { data: Json[] }).data

    it('lists of models have the largest context of the engines, and no patterns', async () => {
      await until(async () => (await cards()).every((card) => 'max_model_len' in card), 50)
      await until(async () => (await cards())[0]!['max_model_len'] === LARGE_CONTEXT, 50)
      expect((await cards()).map(({ id, max_model_len: length }) => [id, length])).toEqual([
        [BASE, LARGE_CONTEXT],
        ['coder', LARGE_CONTEXT],
        ['claude-poet', LARGE_CONTEXT],
        ['small', SMALL_CONTEXT],
        ['claude-opus-mini', SMALL_CONTEXT],
      ])
    }, 30_000)

    it.each([
      [`/v1/models/${BASE}`, BASE],
      [`/v1/models/${encodeURIComponent(BASE)}`, BASE],
      [`/v1/models/${encodeURIComponent(ALIAS)}`, ALIAS],
    ])('%s is the card of %s', async (path, id) => {
      expect(await (await get(path)).json()).toMatchObject({ id, object: 'model', root: BASE })
    })

    it('lists of models name an unknown model as an error of the client’s API', async () => {
      const openai = await get('/v1/models/org/none')
      expect([openai.status, await openai.json()]).toMatchObject([404, { error: { code: 'model_not_found' } }])
      const anthropic = await get('/v1/models/org/none', { headers: { 'anthropic-version': '2023-06-01' } })
      expect([anthropic.status, await anthropic.json()]).toMatchObject([
        404,
        { type: 'error', error: { type: 'not_found_error' } },
      ])
    })

    it('lists of models have Anthropic’s form for its clients', async () => {
      const headers = { 'anthropic-version': '2023-06-01' }
      const list = (await (await get('/v1/models?limit=1000', { headers })).json()) as { data: Json[] }
      expect(list).toMatchObject({ has_more: false, first_id: BASE, last_id: 'claude-opus-mini' })
      expect(list.data[0]).toMatchObject({ type: 'model', id: BASE, display_name: BASE })
      expect(Number.isNaN(Date.parse(String(list.data[0]!['created_at'])))).toBe(false)
      const card = await (await get(`/v1/models/${encodeURIComponent(ALIAS)}`, { headers })).json()
      expect(card).toMatchObject({ type: 'model', id: ALIAS })
    })
  })

  describe(`counts of tokens, on ${name}`, () => {
    const count = () =>
      post('/v1/messages/count_tokens?beta=true', { model: ALIAS, messages: [{ role: 'user', content: 'hi' }] })

    it('counts of tokens come from an engine that has the route', async () => {
      for (const engine of engines) engine.routes['POST /v1/messages/count_tokens'] = { body: { input_tokens: 77 } }
      expect(await (await count()).json()).toEqual({ input_tokens: 77 })
    })

    it('counts of tokens are refused in words without such an engine and without a vocabulary', async () => {
      for (const engine of engines)
        engine.routes['POST /v1/messages/count_tokens'] = { status: 404, body: { detail: 'Not Found' } }
      const response = await count()
      const body = (await response.json()) as { error: { type: string; message: string } }
      expect([response.status, body.error.type]).toEqual([404, 'not_found_error'])
      expect(body.error.message).toContain('/v1/messages/count_tokens')
      const again = await chat('coder')
      await again.text()
      expect(again.status).toBe(200)
    })
  })

  describe(`the model in answers, on ${name}`, () => {
    let engine: FakeEngine
    let requested: TestGateway
    let served: TestGateway

    const open = (responseModel: string): Promise<TestGateway> =>
      openGateway({
        runtime,
        engines: [engine],
        pool: { model: BASE, aliases: ['claude-*'], response_model: responseModel },
      })

    beforeAll(async () => {
      engine = await FakeEngine.open()
      requested = await open('requested')
      served = await open('served')
    })
    afterAll(async () => {
      await requested.close()
      await served.close()
      await engine.close()
    })

    describe.each(protocols)('of %s', (_protocol, { path, body, whole, stream }) => {
      it('the model in an answer is the requested name in a whole answer, and all other bytes are the engine’s', async () => {
        engine.routes = { [`POST ${path}`]: { body: whole } }
        const ask = (at: TestGateway) => post(path, { model: ALIAS, ...body }, { at })
        const text = await (await ask(requested)).text()
        expect(text).toBe(expected(JSON.stringify(whole), ALIAS))
        expect(text).not.toBe(JSON.stringify(whole))
        expect(await (await ask(served)).text()).toBe(JSON.stringify(whole))
      })

      it.skipIf(stream === '')(
        'the model in an answer is the requested name in a stream, however it is divided',
        async () => {
          for (const size of [1, 7, 100_000]) {
            const pieces = Array.from({ length: Math.ceil(stream.length / size) }, (_, at) =>
              stream.slice(at * size, (at + 1) * size),
            )
            engine.routes = { [`POST ${path}`]: sseAnswer(pieces) }
            const ask = (at: TestGateway) =>
              post(path, { model: ALIAS, stream: true, stream_options: { include_usage: true }, ...body }, { at })
            expect(await (await ask(requested)).text()).toBe(expected(stream, ALIAS))
            expect(await (await ask(served)).text()).toBe(stream)
          }
        },
      )
    })

    it('the model in answers stays in an error', async () => {
      const error = { error: { message: 'no', model: BASE, type: 'x', code: 400 } }
      engine.routes = { 'POST *': { status: 400, body: error } }
      const response = await post(
        '/v1/chat/completions',
        { model: ALIAS, messages: [{ role: 'user', content: 'hi' }] },
        { at: requested },
      )
      expect(await response.json()).toEqual(error)
    })

    it('the model in answers is the requested name up to the error event of a truncated stream', async () => {
      const first = chunk({ model: BASE })
      engine.routes = { 'POST *': sseAnswer([first, 50], { end: 'reset' }) }
      const response = await post(
        '/v1/chat/completions',
        { model: ALIAS, stream: true, messages: [{ role: 'user', content: 'hi' }] },
        { at: requested },
      )
      let text = ''
      const read = async () => {
        for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) text += piece
      }
      await expect(read()).rejects.toThrow()
      expect(text.startsWith(expected(first, ALIAS))).toBe(true)
      expect(text).toContain('engine_stream_truncated')
      const fleet = (await (await requested.get('/v1/firstlight/fleet')).json()) as { pools: { bookings: number }[] }
      expect(fleet.pools[0]!.bookings).toBe(0)
    })
  })
}
