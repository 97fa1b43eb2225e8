import { describe, expect, it } from 'vitest'
import {
  BUFFERED,
  FULL_DUPLEX,
  HEADS,
  type PickerAnswer,
  ProxyCall,
  type ProxyModes,
  type ProxyRequest,
  STREAMED_ANSWER,
} from '../../kit/ext-proc-client.ts'
import type { GrpcTestClient } from '../../kit/grpc-client.ts'
import { ENGINE_KEY, openPicker } from '../../kit/open-picker.ts'
import { DONE, sseEvent, token } from '../../kit/sse.ts'
import { until } from '../../wait.ts'

const DESTINATION = 'x-gateway-destination-endpoint'
const SSE = { 'content-type': 'text/event-stream', server: 'uvicorn', date: 'now' }
const JSON_HEAD = { 'content-type': 'application/json', server: 'uvicorn', date: 'now' }
const USAGE = sseEvent({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 } })
const modes: readonly (readonly [string, ProxyModes])[] = [
  ['full duplex', FULL_DUPLEX],
  ['full duplex with heads of responses', HEADS],
  ['buffered with heads of responses', BUFFERED],
  ['buffered with streamed responses', STREAMED_ANSWER],
]

interface EngineView {
  readonly requests: number
}

const chat = (changes: object = {}): string =>
  JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }], ...changes })

async function place(
  client: GrpcTestClient,
  request: Partial<ProxyRequest> = {},
): Promise<{ readonly call: ProxyCall; readonly placed: PickerAnswer }> {
  const call = new ProxyCall(client, request.modes)
  return { call, placed: await call.request({ body: chat(), ...request }) }
}

/** Reports a response like an engine behind the proxy. */
async function serve(call: ProxyCall, served?: string): Promise<void> {
  call.responseHead(200, SSE, served)
  await call.next(({ kind }) => kind === 'response_headers' || call.modes.response === FULL_DUPLEX.response)
  if (call.modes.response === HEADS.response) return call.send([[7, [[1, []]]]])
  call.responseBody(token('hello'), false)
  call.responseBody(USAGE + DONE, true)
}

describe.each(modes)('in %s', (_name, bodyModes) => {
  it('a request gets an engine in header and metadata, with its key and without the client’s', async () => {
    await using picker = await openPicker()
    const { client, gateway, a, b } = picker
    const { call, placed } = await place(client, {
      modes: bodyModes,
      headers: {
        authorization: 'Bearer key-of-the-client',
        cookie: 'a=b',
        [DESTINATION]: '10.9.9.9:1',
        'x-prefiller-host-port': '10.9.9.9:1',
        'x-forwarded-proto': 'https',
      },
    })
    expect([a, b]).toContain(placed.set[DESTINATION])
    expect(placed.metadata).toBe(placed.set[DESTINATION])
    expect(placed.set['authorization']).toBe(`Bearer ${ENGINE_KEY}`)
    expect(placed.remove).toEqual(expect.arrayContaining(['cookie', 'x-prefiller-host-port']))
    expect(placed.remove).not.toContain('x-forwarded-proto')
    expect(placed.remove).not.toContain(DESTINATION)
    await serve(call)
    if (bodyModes.response === FULL_DUPLEX.response) {
      await call.next(({ endOfStream, kind }) => kind === 'response_body' && endOfStream)
      expect(call.text('response_body')).toBe(token('hello') + DONE)
      expect(JSON.parse(call.text('request_body'))).toMatchObject({ stream_options: { include_usage: true } })
    }
    call.call.halfClose()
    expect(await call.ended).toEqual({ status: 0, message: '' })
    await gateway.idle()
    expect(gateway.logged('request').at(-1)).toMatchObject({ status: 200, result: 'complete', stream: true })
  })

  it('a refusal is one immediate response with the status and body of the gateway', async () => {
    await using picker = await openPicker()
    const { client } = picker
    const { call, placed } = await place(client, { modes: bodyModes, body: chat({ model: 'unknown' }) })
    expect(placed).toMatchObject({ kind: 'immediate_response', status: 404 })
    expect(JSON.parse(placed.body.toString())).toMatchObject({ error: { code: 'model_not_found' } })
    expect((await call.ended).status).toBe(0)
  })

  it('bookings of aborted requests end, wherever the proxy aborts them', async () => {
    await using picker = await openPicker()
    const { client, gateway } = picker
    const aborts = Array.from({ length: 24 }, async (_, at) => {
      const call = new ProxyCall(client, bodyModes)
      if (at % 4 === 0) {
        call.head({})
      } else {
        const placed = await call.request({ body: chat({ messages: [{ role: 'user', content: `hi ${at}` }] }) })
        expect(placed.metadata).not.toBe('')
        if (at % 4 === 2) call.responseHead(200, SSE)
        if (at % 4 === 3) await serve(call)
      }
      if (at % 8 < 4) call.call.abort()
      else call.call.halfClose()
      await call.ended
    })
    await Promise.all(aborts)
    await gateway.idle()
    expect(gateway.logged('request').some(({ result }) => result === 'client_gone')).toBe(true)
  })

  it('the adapter’s name and the alias of a model reach the engine as its own names', async () => {
    await using picker = await openPicker({ pool: { model: 'base', aliases: ['alias'] } })
    const { client } = picker
    const { call, placed } = await place(client, { modes: bodyModes, body: chat({ model: 'alias' }) })
    if (bodyModes.request !== BUFFERED.request)
      await call.next(({ kind, endOfStream }) => kind === 'request_body' && endOfStream)
    const body = bodyModes.request === BUFFERED.request ? placed.body.toString() : call.text('request_body')
    expect(JSON.parse(body)).toMatchObject({ model: 'base' })
    if (bodyModes.request === BUFFERED.request)
      expect(placed.set['content-length']).toBe(String(Buffer.byteLength(body)))
    call.call.abort()
  })
})

it('a body in pieces of any size comes back whole, in pieces that proxies accept', async () => {
  await using picker = await openPicker()
  const { client } = picker
  const body = chat({ messages: [{ role: 'user', content: 'word '.repeat(80_000) }], stream: false })
  const { call } = await place(client, { body, pieceBytes: 4_001 })
  await call.next(({ kind, endOfStream }) => kind === 'request_body' && endOfStream)
  expect(call.text('request_body')).toBe(body)
  expect(Math.max(...call.answers.map((answer) => answer.body.length))).toBe(62_000)
  call.call.abort()
})

it('the proxy’s subset restricts the choice, as a list or text, with or without ports', async () => {
  await using picker = await openPicker({ epp: { fallbacks: 4 } })
  const { client, a, b } = picker
  for (const subset of [[b], b, ` ${b} , 10.0.0.9:1`, [b, '10.0.0.9']]) {
    const { call, placed } = await place(client, { subset })
    expect(placed.metadata).toBe(b)
    call.call.abort()
  }
  const { call, placed } = await place(client, { subset: ['127.0.0.1'] })
  expect(placed.metadata.split(',').toSorted()).toEqual([a, b].toSorted())
  call.call.abort()
})

it('an empty subset, or one without an engine of the pool, gets 503', async () => {
  await using picker = await openPicker()
  const { client, gateway } = picker
  for (const subset of [[], '', ['10.0.0.9:1']])
    expect((await place(client, { subset })).placed).toMatchObject({ kind: 'immediate_response', status: 503 })
  await gateway.idle()
})

it('the destination is one engine unless fallbacks are configured', async () => {
  await using picker = await openPicker()
  const { client, a, b } = picker
  const { call, placed } = await place(client)
  expect([a, b]).toContain(placed.metadata)
  call.call.abort()
})

it('a booking moves to the engine that served, and the first one is at fault', async () => {
  await using picker = await openPicker({ epp: { fallbacks: 1 } })
  const { client, gateway, a, b } = picker
  const { call, placed } = await place(client)
  const [first, second] = placed.metadata.split(',') as [string, string]
  const ids: Readonly<Record<string, string>> = { [a]: 'a', [b]: 'b' }
  call.responseHead(200, SSE, second)
  call.responseBody(token('hello'), false)
  const head = await call.next(({ kind }) => kind === 'response_headers')
  expect(head.set['x-firstlight-engine']).toBe(ids[second])
  await until(async () => (await gateway.engines<EngineView>())[ids[second]!]!.requests === 1)
  expect((await gateway.engines<EngineView>())[ids[first]!]!.requests).toBe(0)
  call.responseBody(DONE, true)
  await call.next(({ endOfStream, kind }) => kind === 'response_body' && endOfStream)
  call.call.abort()
  await gateway.idle()
  expect(gateway.logged('attempt_failed')).toMatchObject([{ engine: ids[first], failure: 'connect' }])
  expect(gateway.logged('request').at(-1)).toMatchObject({ engine: ids[second], result: 'complete' })
})

it('an address outside the pool ends the booking, and the response goes on', async () => {
  await using picker = await openPicker()
  const { client, gateway } = picker
  const { call } = await place(client)
  await serve(call, '10.0.0.9:1')
  await call.next(({ endOfStream, kind }) => kind === 'response_body' && endOfStream)
  expect(call.text('response_body')).toBe(token('hello') + DONE)
  call.call.abort()
  await gateway.idle()
})

it('an engine that the proxy could not reach, or that fails, gets the gateway’s own error', async () => {
  await using picker = await openPicker()
  const { client, gateway } = picker
  const unreached = await place(client)
  unreached.call.responseHead(503, { 'content-type': 'text/plain', 'content-length': '91' })
  expect(await unreached.call.next(({ status }) => status > 0)).toMatchObject({ status: 503 })
  const failed = await place(client)
  failed.call.responseHead(500, JSON_HEAD)
  failed.call.responseBody('{"error":"CUDA"}', true)
  const answer = await failed.call.next(({ status }) => status > 0)
  expect(answer.status).toBe(502)
  expect(answer.body.toString()).not.toContain('CUDA')
  await gateway.idle()
  expect(gateway.logged('attempt_failed').map(({ failure }) => failure)).toEqual(['connect', 'status_5xx'])
})

it('a refusal of the engine goes to the client with its body', async () => {
  await using picker = await openPicker()
  const { client, gateway } = picker
  const { call } = await place(client)
  call.responseHead(400, JSON_HEAD)
  call.responseBody('{"error":{"message":"bad"}}', true)
  await call.next(({ endOfStream, kind }) => kind === 'response_body' && endOfStream)
  expect(call.text('response_body')).toBe('{"error":{"message":"bad"}}')
  call.call.abort()
  await gateway.idle()
})

it('a stream without its end is truncated with an error event and a broken response', async () => {
  await using picker = await openPicker()
  const { client, gateway } = picker
  const { call } = await place(client)
  call.responseHead(200, SSE)
  call.responseBody(token('hello'), true)
  expect((await call.ended).status).toBe(14)
  expect(call.text('response_body')).toContain('engine_stream_truncated')
  expect(call.answers.some(({ kind, endOfStream }) => kind === 'response_body' && endOfStream)).toBe(false)
  await gateway.idle()
  expect(gateway.logged('request').at(-1)).toMatchObject({ result: 'engine_failed' })
})

it('a stream whose engine falls silent behind its last event ends cleanly', async () => {
  await using picker = await openPicker({ pool: { limits: { idle_ms: 100 } } })
  const { client, gateway } = picker
  const { call } = await place(client)
  call.responseHead(200, SSE)
  call.responseBody(token('hello') + DONE, false)
  const last = await call.next(({ kind, endOfStream }) => kind === 'response_body' && endOfStream)
  expect(last.body.length).toBeGreaterThan(0)
  expect(call.text('response_body')).not.toContain('error')
  call.call.abort()
  await gateway.idle()
  expect(gateway.logged('request').at(-1)).toMatchObject({ result: 'complete' })
})

it('trailers of requests and responses are answered after the bodies', async () => {
  await using picker = await openPicker()
  const { client, gateway } = picker
  const call = new ProxyCall(client)
  call.head({})
  call.body(Buffer.from(chat()), false)
  call.send([[6, [[1, []]]]])
  await call.next(({ kind }) => kind === 'request_trailers')
  expect(call.answers.map(({ kind, endOfStream }) => `${kind} ${endOfStream}`)).toEqual([
    'request_headers false',
    'request_body false',
    'request_trailers false',
  ])
  call.responseHead(200, SSE)
  call.responseBody(token('hello') + DONE, false)
  call.send([[7, [[1, []]]]])
  await call.next(({ kind }) => kind === 'response_trailers')
  call.call.abort()
  await gateway.idle()
  expect(gateway.logged('request').at(-1)).toMatchObject({ result: 'complete' })
})

it('a response of the proxy itself passes, and the request holds nothing', async () => {
  await using picker = await openPicker()
  const { client, gateway } = picker
  const call = new ProxyCall(client)
  call.head({})
  call.body(Buffer.from('{"model":'), false)
  call.responseHead(413, { 'content-type': 'text/plain' })
  call.responseBody('too large', true)
  await call.next(({ kind, endOfStream }) => kind === 'response_body' && endOfStream)
  expect(call.text('response_body')).toBe('too large')
  call.call.halfClose()
  expect((await call.ended).status).toBe(0)
  await gateway.idle()
})

it('answers the list of models, and no path of operators', async () => {
  await using picker = await openPicker()
  const { client } = picker
  const get = async (path: string): Promise<PickerAnswer> => {
    const call = new ProxyCall(client)
    call.head({ method: 'GET', path }, true)
    return call.next(({ status }) => status > 0)
  }
  expect(JSON.parse((await get('/v1/models')).body.toString())).toMatchObject({ data: [{ id: 'm' }] })
  for (const path of ['/v1/firstlight/fleet', '/metrics', '/dashboard', '/ready'])
    expect((await get(path)).status).toBe(404)
})

it('an objective sets the class of a request, which a key can lower only', async () => {
  const secret = 'secret-of-a-client-1'
  await using picker = await openPicker({
    epp: { objectives: { urgent: 10, batch: -1 } },
    config: { keys: [{ name: 'k', secret, class: 'standard' }], open: false },
  })
  const { client } = picker
  const as = async (objective: string): Promise<number> => {
    const headers = { authorization: `Bearer ${secret}`, 'x-llm-d-inference-objective': objective }
    const { call, placed } = await place(client, { headers })
    call.call.abort()
    return placed.status
  }
  expect(await as('urgent')).toBe(403)
  expect(await as('batch')).toBe(0)
  expect(await as('unknown')).toBe(0)
})

it('an objective of a resource has effect with the configuration that contains it; a configured priority stays', async () => {
  const secret = 'secret-of-a-client-1'
  await using picker = await openPicker({
    epp: { objectives: { batch: -1 } },
    config: { keys: [{ name: 'k', secret, class: 'standard' }], open: false },
  })
  const { client, gateway } = picker
  const as = async (objective: string): Promise<number> => {
    const headers = { authorization: `Bearer ${secret}`, 'x-llm-d-inference-objective': objective }
    const { call, placed } = await place(client, { headers })
    call.call.abort()
    return placed.status
  }
  expect(await as('urgent')).toBe(0)
  await picker.adopt({ discovered: { objectives: { urgent: 10, batch: 10 }, malformed: 2 } })
  // A key of the class `standard` may not raise it.
  expect(await as('urgent')).toBe(403)
  expect(await as('batch')).toBe(0)
  const metrics = await (await gateway.get('/metrics')).text()
  expect(metrics).toContain('firstlight_malformed_resources 2')
})
