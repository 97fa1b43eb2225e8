import { describe, expect, it } from 'vitest'
import { createGateway, type Gateway } from '../src/gateway.ts'
import {
  configOf,
  onePool,
  openRecordingPorts,
  poster,
  type ConfigChanges,
  type Post,
  type RecordingPorts,
} from './kit/recording-ports.ts'

const chat = '/v1/chat/completions'
const hello = { model: 'qwen', messages: [{ role: 'user', content: 'Hello' }] }

interface TestGateway {
  readonly world: RecordingPorts
  readonly gateway: Gateway
  readonly post: Post
  readonly get: (path: string, headers?: Readonly<Record<string, string>>) => Promise<Response>
}

function open(changes: ConfigChanges = {}): TestGateway {
  const world = openRecordingPorts()
  const gateway = createGateway(configOf(changes), world.ports)
  return {
    world,
    gateway,
    post: poster(gateway, world),
    get: (path, headers = {}) => gateway.fetch(new Request(`http://localhost${path}`, { headers }), world.scope),
  }
}

const stored = async (opened: TestGateway, headers: Readonly<Record<string, string>> = {}): Promise<void> => {
  opened.world.answer = () => ({ body: '{"id":"resp_1"}', responseId: 'resp_1' })
  expect((await opened.post('/v1/responses', '{"model":"qwen","input":"x"}', headers)).status).toBe(200)
}

const code = async (response: Response): Promise<unknown> =>
  ((await response.json()) as { error: { code: unknown } }).error.code
const last = <T>(list: readonly T[]): T => list.at(-1)!
const pair = (flat: readonly string[], name: string): string | null => {
  const at = flat.findIndex((one, i) => i % 2 === 0 && one === name)
  return at < 0 ? null : flat[at + 1]!
}

describe('the request to an engine', () => {
  it('the request to an engine has the client’s bytes if nothing is changed', async () => {
    const { world, post } = open()
    const text = '{ "model" : "Qwen/Qwen3-8B",\n "seed": 12345678901234567890, "unknown": {"a":[1,2]} }'
    await post('/v1/completions', text)
    expect(last(world.sent).body).toBe(text)
  })

  it('the request to an engine is the model’s own name for an alias, and an adapter’s as it is', async () => {
    const { world, post } = open()
    await post('/v1/embeddings', '{"model":"qwen","input":"x"}')
    expect(last(world.sent).body).toBe('{"model":"Qwen/Qwen3-8B","input":"x"}')
    await post('/v1/embeddings', '{"model":"poet","input":"x"}')
    expect(last(world.sent).body).toBe('{"model":"poet","input":"x"}')
    expect(last(world.admissions)).toMatchObject({ model: 'poet', adapter: 'poet' })
  })

  it('the request to an engine never contains what JSON.parse misread', async () => {
    // V8 of Node 24 to 26 compares a name with its successor in earlier documents before it decodes it.
    const keys = [{ name: 'team-a', secret: 'key', models: ['qwen'], cache_salt: 'salt-of-a' }]
    const { world, post } = open({ keys })
    const send = (text: string) => post('/v1/completions', text, { authorization: 'Bearer key' })
    for (const [at, [name, value]] of [
      ['kv_transfer_params', '{"do_remote_prefill":true}'],
      ['cache_salt', '"salt-of-b"'],
      ['model', '"poet"'],
      ['vllm_xargs', '{"kv_transfer_params":1}'],
    ].entries()) {
      const escaped = `\\u${name!.charCodeAt(0).toString(16).padStart(4, '0')}${name!.slice(1)}`
      const text = (written: string) => `{"p${at}":1,"model":"qwen","prompt":"x","${written}":${value}}`
      for (let i = 0; i < 3; i++) await send(text(escaped.slice(0, name!.length).replace('\\', '\\\\')))
      await send(text(escaped))
    }
    const inner = (name: string) => `{"model":"qwen","prompt":"x","vllm_xargs":{"p":1,"${name}":1}}`
    for (let i = 0; i < 3; i++) await send(inner('\\\\u006bv_transfer_p'))
    await send(inner('\\u006bv_transfer_params'))
    for (const { body } of world.sent) {
      // Read as an engine reads it, which has not parsed the other documents.
      const names = [...body!.matchAll(/"((?:[^"\\]|\\.)*)":/g)].map(([, name]) => JSON.parse(`"${name}"`) as string)
      expect(names).not.toContain('kv_transfer_params')
      expect(names.filter((name) => name === 'model')).toHaveLength(1)
      // The client's salt is inside the key's.
      expect(body).not.toContain('"salt-of-b"')
    }
  })

  it('the request to an engine never contains transfer parameters of a client', async () => {
    const { world, post } = open()
    await post(
      chat,
      '{"model":"poet","k\\u0076_transfer_params":{"do_remote_prefill":true},"vllm_xargs":{"ec_transfer_params":1}}',
    )
    expect(last(world.sent).body).toBe('{"model":"poet","vllm_xargs":{}}')
  })

  it('the request to an engine has the same path with its query and the request id, without the client’s credentials', async () => {
    const { world, post } = open()
    await post('/tokenize?x=1', hello, {
      authorization: 'Bearer mine',
      cookie: 'a=b',
      'x-request-id': 'label-1',
      'x-custom': 'kept',
    })
    const { request } = last(world.sent)
    expect(request.path).toBe('/tokenize?x=1')
    expect(pair(request.headers, 'authorization')).toBeNull()
    expect(pair(request.headers, 'cookie')).toBeNull()
    expect(pair(request.headers, 'x-custom')).toBe('kept')
    expect(pair(request.headers, 'x-request-id')).toBe('label-1')
  })

  it('requests usage on observed streams only, and only if the client did not', async () => {
    const { world, post } = open({ clusters: [{ ...onePool, pools: [{ ...onePool.pools[0], observe_share: 0.4 }] }] })
    const usage = '{"stream_options":{"include_usage":true},"model":"poet","stream":true}'
    world.chance = 0.39
    await post(chat, '{"model":"poet","stream":true}')
    expect(last(world.sent).body).toBe(usage)
    world.chance = 0.4
    await post(chat, '{"model":"poet","stream":true}')
    expect(last(world.sent).body).toBe('{"model":"poet","stream":true}')
    world.chance = 0
    await post(chat, '{"model":"poet","stream":true,"stream_options":{"include_usage":true}}')
    expect(last(world.sent).body).toBe('{"model":"poet","stream":true,"stream_options":{"include_usage":true}}')
    await post(chat, '{"model":"poet"}')
    expect(last(world.sent).body).toBe('{"model":"poet"}')
    await post('/v1/messages', '{"model":"poet","stream":true}')
    expect(last(world.sent).body).toBe('{"model":"poet","stream":true}')
  })

  it('the request to an engine carries the tenant’s salt, with the client’s own inside it', async () => {
    const { world, post } = open({ keys: [{ name: 'team', secret: 'team-secret', cache_salt: 'T' }] })
    const key = { authorization: 'Bearer team-secret' }
    await post(chat, '{"model":"poet","messages":[]}', key)
    expect(last(world.sent).body).toBe('{"cache_salt":"T","model":"poet","messages":[]}')
    await post(chat, '{"model":"poet","cache_salt":"mine"}', key)
    expect(last(world.sent).body).toBe('{"model":"poet","cache_salt":"T:mine"}')
    await post('/tokenize', '{"model":"poet"}', key)
    expect(last(world.sent).body).toBe('{"model":"poet"}')
  })

  it('the request to an engine has the requested priority instead of the client’s own, if engines use priorities', async () => {
    const { world, post } = open()
    const reached = async (path: string, body: string, headers: Readonly<Record<string, string>> = {}) => {
      expect((await post(path, body, headers)).status).toBe(200)
      return last(world.sent).body
    }
    const options = { 'x-firstlight-options': '{"priority":-2}' }
    expect(await reached(chat, '{"model":"qwen","firstlight":{"priority":3},"a":1}')).toBe(
      '{"priority":3,"model":"Qwen/Qwen3-8B","a":1}',
    )
    expect(await reached('/v1/embeddings', '{"model":"qwen","input":"x","priority":7}', options)).toBe(
      '{"model":"Qwen/Qwen3-8B","input":"x","priority":-2}',
    )
    expect(await reached('/tokenize', '{"model":"qwen","prompt":"x"}', options)).toBe(
      '{"model":"Qwen/Qwen3-8B","prompt":"x"}',
    )
    expect(await reached(chat, '{"model":"qwen","priority":7}')).toBe('{"model":"Qwen/Qwen3-8B","priority":7}')
  })

  it('the request to an engine is a form as it came, but for the name of an alias', async () => {
    const { world, post } = open()
    const form = (model: string) =>
      `--B\r\nContent-Disposition: form-data; name="file"; filename="qwen"\r\n\r\nqwen\r\n--B\r\nContent-Disposition: form-data; name="model"\r\n\r\n${model}\r\n--B--\r\n`
    const type = { 'content-type': 'multipart/form-data; boundary=B' }
    world.answer = (request) =>
      request.target.id === 'a'
        ? { status: 500 }
        : { headers: ['content-type', 'text/plain; charset=utf-8'], body: 'Hello' }
    const response = await post('/v1/audio/transcriptions', form('qwen'), type)
    expect([response.status, response.headers.get('content-type'), await response.text()]).toEqual([
      200,
      'text/plain; charset=utf-8',
      'Hello',
    ])
    expect(world.sent.map(({ body }) => body)).toEqual([form('Qwen/Qwen3-8B'), form('Qwen/Qwen3-8B')])
    await post('/v1/audio/translations', form('poet'), type)
    expect(last(world.sent).body).toBe(form('poet'))
    expect(pair(last(world.sent).request.headers, 'content-type')).toBe('multipart/form-data; boundary=B')
    expect(last(world.admissions)).toMatchObject({ model: 'poet', adapter: 'poet' })
  })

  it('the request to an engine is a form with text fields; the gateway changes only model, stream and session', async () => {
    const { world, post } = open({ keys: [{ name: 'team', secret: 'team-secret', cache_salt: 'T' }] })
    const fields = {
      stream: 'true',
      n: '9',
      user: 'anna',
      stream_options: 'x',
      prompt: 'x',
      cache_salt: 'mine',
      firstlight: '{"policy":"x"}',
      previous_response_id: 'resp_1',
      model: 'Qwen/Qwen3-8B',
    }
    const form = `${Object.entries(fields)
      .map(([name, value]) => `--B\r\ncontent-disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`)
      .join('')}--B--`
    const response = await post('/v1/audio/transcriptions', form, {
      authorization: 'Bearer team-secret',
      'content-type': 'multipart/form-data; boundary=B',
    })
    expect(response.status).toBe(200)
    expect(last(world.sent).body).toBe(form)
    expect(last(world.admissions)).toMatchObject({
      streams: true,
      session: 'anna',
      priority: 0,
      promptTokens: 1500,
      tokenSource: 'bytes',
      unsplittable: 'an upload goes to one engine',
      tenant: 'team',
    })
    expect(last(world.admissions).blocks).toHaveLength(0)
  })

  it('the request to an engine is unchanged for audio and images, and so is the response', async () => {
    const { world, post } = open()
    world.answer = () => ({ headers: ['content-type', 'audio/wav'], body: 'RIFF' })
    for (const path of ['/v1/audio/speech', '/v1/images/generations']) {
      const response = await post(path, '{"model":"qwen", "input":"Hello"}')
      expect([response.headers.get('content-type'), await response.text()]).toEqual(['audio/wav', 'RIFF'])
      expect(last(world.sent).body).toBe('{"model":"Qwen/Qwen3-8B", "input":"Hello"}')
    }
  })

  it('the request to an engine goes to the next engine with the same bytes if the first one fails', async () => {
    const { world, post } = open()
    world.answer = (request) => (request.target.id === 'a' ? { status: 500 } : { body: '{}' })
    const response = await post(chat, hello)
    expect(response.status).toBe(200)
    expect(response.headers.get('x-firstlight-engine')).toBe('b')
    expect(world.sent.map(({ body }) => body)).toEqual([world.sent[0]!.body, world.sent[0]!.body])
  })
})

describe('the admission that the cluster receives', () => {
  const cases: readonly (readonly [
    string,
    string,
    Readonly<Record<string, string>>,
    Readonly<Record<string, unknown>>,
  ])[] = [
    ['the session of the header', '{"model":"qwen","user":"u"}', { 'x-session-id': 'h' }, { session: 'h' }],
    ['the session of the body', '{"model":"qwen","user":"u"}', {}, { session: 'u' }],
    [
      'the session said outright',
      '{"model":"qwen","user":"u","firstlight":{"session":"f"}}',
      { 'x-session-id': 'h' },
      { session: 'f' },
    ],
    ['no session where none is named', '{"model":"qwen","user":{}}', {}, { session: null }],
    [
      'overrides',
      '{"model":"qwen","firstlight":{"policy":"random","overlap_weight":2}}',
      {},
      { overrides: { policy: 'random', overlapWeight: 2 } },
    ],
    [
      'overrides of the header, where the body is silent',
      '{"model":"qwen","firstlight":{"policy":"random"}}',
      { 'x-firstlight-options': '{"policy":"qps","temperature":1}' },
      { overrides: { policy: 'random', temperature: 1 } },
    ],
    ['the priority', '{"model":"qwen","priority":3}', {}, { priority: 3 }],
    [
      'the expected output',
      '{"model":"qwen","firstlight":{"expected_output_tokens":9}}',
      {},
      { expectedOutputTokens: 9 },
    ],
    ['why it cannot be split', '{"model":"qwen","n":2}', {}, { unsplittable: 'n is more than 1' }],
    ['that all of its prompt is computed', '{"model":"qwen","prompt_logprobs":0}', {}, { computesAll: true }],
    ['how many answers it asks for', '{"model":"qwen","n":3}', {}, { sequences: 3 }],
    ['that caches count', '{"model":"qwen","logprobs":5}', {}, { computesAll: false }],
    [
      'how long the prompt is',
      '{"model":"qwen","messages":[{"role":"user","content":"' + 'x'.repeat(4000) + '"}]}',
      {},
      { tokenSource: 'bytes', tenant: 'open', version: 1, configVersion: 7 },
    ],
  ]
  it.each(cases)('the admission is %s', async (_name, body, headers, expected) => {
    const { world, post } = open()
    expect((await post(chat, body, headers)).status).toBe(200)
    expect(last(world.admissions)).toMatchObject(expected)
  })

  it.each(['/v1/responses', '/v1/messages', '/v1/embeddings'])(
    'the admission is one answer and a prompt that caches count for at %s, whose engines read no `n` and score no prompts',
    async (path) => {
      const { world, post } = open()
      expect(
        (
          await post(
            path,
            '{"model":"qwen","input":"x","messages":[{"role":"user","content":"x"}],"max_tokens":9,"n":50,"prompt_logprobs":1,"echo":true}',
          )
        ).status,
      ).toBe(200)
      expect(last(world.admissions)).toMatchObject({ sequences: 1, computesAll: false })
    },
  )

  it.each([
    ['/pooling', 'token_embed', true],
    ['/pooling', 'token_classify', true],
    ['/pooling', 'embed', false],
    ['/pooling', null, false],
    ['/classify', 'token_classify', false],
  ])('the admission is at %s, for task %s, whether vLLM reads no cache: %s', async (path, task, computesAll) => {
    const { world, post } = open()
    expect((await post(path, { model: 'qwen', input: 'x', task })).status).toBe(200)
    expect(last(world.admissions)).toMatchObject({ computesAll })
  })

  it('the admission is a prompt’s length in tokens and its blocks', async () => {
    const { world, post } = open()
    await post('/v1/completions', { model: 'qwen', prompt: 'word '.repeat(2000) })
    const { promptTokens, blocks } = last(world.admissions)
    expect(promptTokens).toBe(2500)
    // 10,000 bytes in blocks of 64 tokens of 4 bytes: 39 full ones, two lanes each.
    expect(blocks.length).toBe(78)
  })

  it('the admission is a better guess of the length once engines have counted', async () => {
    const { world, post } = open()
    const body = { model: 'qwen', prompt: 'x'.repeat(6000) }
    world.answer = () => ({ body: '{}', usage: { promptTokens: 1000, completionTokens: 1, cachedTokens: null } })
    for (let i = 0; i < 200; i++) await post('/v1/completions', body)
    expect(world.admissions[0]!.promptTokens).toBe(1500)
    expect(last(world.admissions).promptTokens).toBeLessThan(1050)
  })

  it('the admission has the priority of the key instead of the client’s', async () => {
    const { world, post } = open({ keys: [{ name: 'team', secret: 'team-secret', priority: 4 }] })
    await post(chat, { ...hello, priority: -5 }, { authorization: 'Bearer team-secret' })
    expect(last(world.admissions)).toMatchObject({ priority: 4, tenant: 'team' })
  })

  it('the admission contains no address or key of an engine', async () => {
    const { world, post } = open()
    await post(chat, hello)
    expect(JSON.stringify(world.admissions)).not.toMatch(/10\.0\.0|engine-secret/)
  })
})

describe('the error response if no engine can serve', () => {
  it.each([
    ['engines_full', 429, 'engines_full'],
    ['no_engine', 503, 'no_engine_available'],
    ['engines_unavailable', 503, 'no_engine_available'],
    ['role_empty', 503, 'role_empty'],
  ] as const)('%s is %d, and when to come back', async (reason, status, expected) => {
    const { world, post } = open()
    world.refusal = { reason, detail: 'engine at 10.0.0.1', retryAfterMs: 1500 }
    const response = await post(chat, hello)
    expect(response.status).toBe(status)
    expect(response.headers.get('retry-after')).toBe('2')
    expect(response.headers.get('retry-after-ms')).toBe('1500')
    expect(response.headers.get('x-should-retry')).toBeNull()
    const text = await response.text()
    expect(text).not.toContain('10.0.0.1')
    expect((JSON.parse(text) as { error: { code: string } }).error.code).toBe(expected)
  })

  it('a refusal is logged as one warning with reason and cause, at most ten in ten seconds', async () => {
    const { world, post } = open()
    world.refusal = { reason: 'engines_unavailable', detail: '1 circuit_open', retryAfterMs: 1500 }
    for (let index = 0; index < 12; index++) await post(chat, hello)
    expect(world.logged.map(({ level, event }) => `${level} ${event}`)).toEqual([
      ...Array.from({ length: 10 }, () => 'warn request'),
      ...Array.from({ length: 2 }, () => 'info request'),
    ])
    expect(world.logged[0]!.fields).toMatchObject({ status: 503, reason: 'no_engine', cause: '1 circuit_open' })
  })

  it('an unforeseen failure is 500 without its words, and is in the log with them', async () => {
    const { world, post } = open()
    world.answer = () => {
      throw new Error('boom at 10.0.0.1')
    }
    const response = await post(chat, hello, { 'x-request-id': 'r-1' })
    expect(response.status).toBe(500)
    expect(await response.text()).not.toContain('boom')
    const logged = world.logged.find(({ level }) => level === 'error')
    expect(logged?.fields).toMatchObject({ request_id: 'r-1', reason: 'internal' })
    expect(String(logged?.fields['error'])).toContain('boom')
  })

  it('an engine’s own error arrives as the engine sent it', async () => {
    const { world, post } = open()
    const body = '{"error":{"message":"too long","type":"BadRequestError","param":"input_tokens","code":400}}'
    world.answer = () => ({ status: 400, body })
    const response = await post(chat, hello)
    expect([response.status, await response.text()]).toEqual([400, body])
  })
})

describe('authorisation', () => {
  it('a gateway rejects everyone if there are no keys and the gateway is reachable from other hosts', async () => {
    const { post, get } = open({ loopback: false })
    const response = await post(chat, hello)
    expect(response.status).toBe(503)
    expect(response.headers.get('x-should-retry')).toBe('false')
    expect(await response.text()).toMatch(/`keys`.*`open: true`/)
    expect((await get('/v1/models')).status).toBe(503)
    expect((await get('/ready')).status).toBe(503)
    expect((await get('/health')).status).toBe(200)
    expect(await code(await get('/v1/firstlight/fleet'))).toBe('not_configured')
  })

  it('a gateway is everybody when the gateway is open, but for the admin surface', async () => {
    const { post, get } = open({ loopback: false, open: true })
    expect((await post(chat, hello)).status).toBe(200)
    expect(await code(await get('/v1/firstlight/fleet'))).toBe('not_configured')
  })

  it('a gateway is everybody on a loopback address, the admin surface too', async () => {
    const { post, get } = open()
    expect((await post(chat, hello)).status).toBe(200)
    expect((await get('/v1/firstlight/fleet')).status).toBe(200)
  })

  it('a gateway is no page of another site, on a gateway without keys', async () => {
    const { post, get } = open()
    expect((await post(chat, hello, { 'sec-fetch-site': 'cross-site' })).status).toBe(403)
    expect((await post(chat, hello, { 'sec-fetch-site': 'same-origin' })).status).toBe(200)
    expect((await get('/v1/firstlight/fleet', { 'sec-fetch-site': 'cross-site' })).status).toBe(403)
  })

  it.each([
    ['localhost:8080', 200],
    ['127.0.0.1', 200],
    ['[::1]:8080', 200],
    ['rebound.example', 403],
    ['127.0.0.1.rebound.example', 403],
  ])('a gateway of the open admin surface at host %s gets %d', async (host, status) => {
    expect((await open().get('/v1/firstlight/fleet', { host })).status).toBe(status)
  })

  it('a gateway requires admin.secret if keys are configured', async () => {
    const { get } = open({ keys: [{ name: 'team', secret: 'team-secret' }] })
    expect(await code(await get('/v1/firstlight/fleet'))).toBe('not_configured')
  })
})

describe('a token in a path', () => {
  it.each([
    '/lmcache/paris/hush-hush/events',
    '/lmcache/nowhere/hush-hush/instances/x/heartbeat',
    '/ttft_report/hush-hush',
  ])('a token in a path keeps %s out of the log', async (path) => {
    const { gateway, world } = open()
    for (const method of ['GET', 'POST', 'PATCH', 'HEAD'])
      await gateway.fetch(new Request(`http://localhost${path}`, { method }), world.scope)
    expect(world.logged.length).toBeGreaterThan(0)
    expect(JSON.stringify(world.logged)).not.toContain('hush')
  })
})

describe('responses stored on an engine', () => {
  it('responses stored on an engine are read, continued, cancelled and deleted on that engine', async () => {
    const opened = open()
    await stored(opened)
    const { world, post, get, gateway } = opened
    expect((await get('/v1/responses/resp_1?include=x')).status).toBe(200)
    expect(last(world.sent).request).toMatchObject({
      method: 'GET',
      path: '/v1/responses/resp_1?include=x',
      body: null,
      target: { id: 'a' },
    })
    expect(last(world.admissions)).toMatchObject({ avoid: ['b'], promptTokens: 0 })
    await post('/v1/responses', '{"input":"more","previous_response_id":"resp_1"}')
    expect(last(world.sent)).toMatchObject({
      request: { target: { id: 'a' } },
      body: '{"model":"Qwen/Qwen3-8B","input":"more","previous_response_id":"resp_1"}',
    })
    expect((await post('/v1/responses/resp_1/cancel', '')).status).toBe(200)
    expect(last(world.sent).request).toMatchObject({ method: 'POST', path: '/v1/responses/resp_1/cancel' })
    const remove = new Request('http://localhost/v1/responses/resp_1', { method: 'DELETE' })
    expect((await gateway.fetch(remove, world.scope)).status).toBe(200)
    expect((await get('/v1/responses/resp_1')).status).toBe(404)
  })

  it('responses stored on an engine are invisible to other clients', async () => {
    const opened = open({
      keys: [
        { name: 'one', secret: 'secret-one-1' },
        { name: 'two', secret: 'secret-two-2' },
      ],
    })
    const one = { authorization: 'Bearer secret-one-1' }
    const two = { authorization: 'Bearer secret-two-2' }
    await stored(opened, one)
    expect((await opened.get('/v1/responses/resp_1', two)).status).toBe(404)
    expect((await opened.post('/v1/responses', '{"model":"qwen","previous_response_id":"resp_1"}', two)).status).toBe(
      404,
    )
    // Engines let clients choose ids. A client cannot take over another client's response by its id.
    await stored(opened, two)
    expect((await opened.get('/v1/responses/resp_1', two)).status).toBe(404)
    expect((await opened.get('/v1/responses/resp_1', one)).status).toBe(200)
  })

  it('responses stored on an engine are forgotten, the least used first, when there are too many', async () => {
    const opened = open({ limits: { response_ids: 2 } })
    const { world, post, get } = opened
    for (const id of ['resp_1', 'resp_2', 'resp_1', 'resp_3']) {
      world.answer = () => ({ body: '{}', responseId: id })
      await post('/v1/responses', '{"model":"qwen","input":"x"}')
    }
    expect(
      await Promise.all(['resp_1', 'resp_2', 'resp_3'].map(async (id) => (await get(`/v1/responses/${id}`)).status)),
    ).toEqual([200, 404, 200])
  })
})

describe('a gateway that drains', () => {
  it('a gateway that drains rejects new requests with different retry times, and is not ready', async () => {
    const { world, gateway, post, get } = open()
    gateway.drain()
    const response = await post(chat, hello)
    expect(response.status).toBe(503)
    expect(response.headers.get('retry-after-ms')).toBe(String(1000 * (1 + world.chance)))
    world.chance = 0.75
    expect((await post(chat, hello)).headers.get('retry-after-ms')).toBe('1750')
    expect(await code(response)).toBe('draining')
    expect(await (await get('/ready')).json()).toEqual({ status: 'not_ready', reason: 'draining' })
    expect((await get('/health')).status).toBe(200)
  })
})

describe('the admin surface', () => {
  it('the admin surface sends drain and undrain of an engine to the right cluster', async () => {
    const { world, post } = open()
    expect(await (await post('/v1/firstlight/engines/a/drain', '')).json()).toEqual({
      cluster: 'paris',
      engine: 'a',
      draining: true,
    })
    await post('/v1/firstlight/engines/a/undrain', '')
    expect(world.signals).toEqual([
      { kind: 'drain', engine: 'a', draining: true },
      { kind: 'drain', engine: 'a', draining: false },
    ])
    const lines = world.logged.filter(({ event }) => event === 'admin_action').map(({ fields }) => fields)
    expect(lines).toMatchObject([
      { action: 'drain', cluster: 'paris', engine: 'a', remote: expect.anything() },
      { action: 'undrain', cluster: 'paris', engine: 'a' },
    ])
  })

  it('the admin surface asks for the cluster if two clusters have an engine of that name', async () => {
    const { world, post } = open({ clusters: [onePool, { ...onePool, id: 'rome' }] })
    const response = await post('/v1/firstlight/engines/a/drain', '')
    expect(response.status).toBe(400)
    expect(await response.text()).toMatch(/paris, rome.*\?cluster=/)
    expect(world.signals).toEqual([])
    expect((await post('/v1/firstlight/engines/a/drain?cluster=rome', '')).status).toBe(200)
  })

  it('the admin surface reports that the named cluster has no such engine', async () => {
    const { post } = open()
    expect(await (await post('/v1/firstlight/engines/a/drain?cluster=pairs', '')).text()).toContain(
      "There is no engine 'a' in a cluster 'pairs'.",
    )
  })

  it('the admin surface explains a request by the client’s label, without its prompt', async () => {
    const { post, get } = open()
    await post(chat, hello, { 'x-request-id': 'mine-1' })
    const answer = await (await get('/v1/firstlight/requests/mine-1')).text()
    expect(JSON.parse(answer)).toMatchObject({
      request: { request_id: 'mine-1', path: chat, model: 'qwen', status: 200 },
      decision: { policy: 'round_robin', candidates: [{ engine: 'a', terms: { queued_prefill_s: 1 } }] },
    })
    expect(answer).not.toContain('Hello')
  })

  it('the admin surface ranks a request with its overrides without sending it', async () => {
    const { world, post } = open()
    const answer = (await (await post('/v1/firstlight/route', { ...hello, firstlight: { policy: 'qps' } })).json()) as {
      decision: { policy: string }
    }
    expect(answer.decision.policy).toBe('qps')
    expect(world.sent).toEqual([])
    expect(world.admissions).toEqual([])
  })
})

describe('the log', () => {
  it('the log has one line per request, without prompts and keys', async () => {
    const { world, post } = open({ keys: [{ name: 'team', secret: 'team-secret' }] })
    await post(chat, { ...hello, stream: true }, { authorization: 'Bearer team-secret', 'x-request-id': 'r-9' })
    await post(chat, hello, { authorization: 'Bearer wrong-secret' })
    const lines = world.logged.filter(({ level }) => level === 'info')
    expect(lines.map(({ fields }) => fields)).toMatchObject([
      { request_id: 'r-9', method: 'POST', path: chat, status: 200, tenant: 'team', model: 'qwen', stream: true },
      { status: 401, reason: 'key_wrong' },
    ])
    expect(JSON.stringify(world.logged)).not.toMatch(/Hello|secret/)
  })
})
