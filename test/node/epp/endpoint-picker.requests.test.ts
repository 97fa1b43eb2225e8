/** Requests that the picker refuses, holds back or gives up, and what a client cannot choose. */
import { gzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { subsetOf } from '../../../src/platform/node/epp/destination.ts'
import { readProcessingRequest } from '../../../src/platform/node/grpc/processing-request.ts'
import { FULL_DUPLEX, headerMap, metadata, ProxyCall, SUBSET_HINT } from '../../kit/ext-proc-client.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { ADMIN_KEY, MODEL } from '../../kit/gateway.ts'
import { openPicker, type TestPicker } from '../../kit/open-picker.ts'
import { message } from '../../kit/protobuf.ts'
import { DONE, sseEvent, token } from '../../kit/sse.ts'
import { turns, until } from '../../wait.ts'

const SSE = { 'content-type': 'text/event-stream', server: 'uvicorn', date: 'now' }

const chat = (changes: object = {}): string =>
  JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }], ...changes })

const waiting = async ({ gateway }: TestPicker): Promise<number> => {
  const metrics = await (await gateway.get('/metrics')).text()
  return Number(/^firstlight_pool_waiting_requests\{.*\} (\d+)$/m.exec(metrics)?.[1] ?? -1)
}

it.each([
  ['is empty', '', {}, 400, 'bad_json'],
  ['is no JSON', '{"model":', {}, 400, 'bad_json'],
  ['is no object', '[]', {}, 400, 'bad_body'],
  ['names no model', '{"messages":[]}', {}, 400, 'model_missing'],
  ['is compressed', gzipSync(chat()), { 'content-encoding': 'gzip' }, 415, 'unsupported_media'],
] as const)('a body that %s is refused as by the gateway', async (_what, body, headers, status, reason) => {
  await using picker = await openPicker()
  const call = new ProxyCall(picker.client, FULL_DUPLEX)
  expect(await call.request({ body, headers })).toMatchObject({ kind: 'immediate_response', status })
  await call.ended
  expect(picker.gateway.logged('request').at(-1)).toMatchObject({ status, reason })
})

it('a key at its limit gets 429 with the time to wait', async () => {
  const secret = 'secret-of-a-client-1'
  await using picker = await openPicker({
    config: { keys: [{ name: 'k', secret, limits: { concurrent: 1 } }], open: false },
  })
  const headers = { authorization: `Bearer ${secret}` }
  const first = new ProxyCall(picker.client, FULL_DUPLEX)
  expect((await first.request({ body: chat(), headers })).metadata).not.toBe('')
  const refused = await new ProxyCall(picker.client, FULL_DUPLEX).request({ body: chat(), headers })
  expect(refused.status).toBe(429)
  expect(Number(refused.set['retry-after'])).toBeGreaterThan(0)
  expect(JSON.parse(refused.body.toString())).toHaveProperty('error.message')
  first.call.abort()
})

it('a request that waits gets its engine when one can serve, and leaves the queue with its client', async () => {
  await using picker = await openPicker({
    engine: { type: 'llama.cpp' },
    pool: { queue: { max_wait_ms: 10_000, no_engine_wait_ms: 120_000 } },
  })
  const { client, gateway } = picker
  const init = { headers: { authorization: `Bearer ${ADMIN_KEY}` } }
  await gateway.post(`/v1/firstlight/pools/${MODEL}/pause`, { mode: 'wait' }, init)
  const [leaving, staying] = [new ProxyCall(client), new ProxyCall(client)] as const
  const left = leaving.request({ body: chat() }).catch(() => 'left')
  const placed = staying.request({ body: chat() })
  await until(async () => (await waiting(picker)) === 2)
  leaving.call.abort()
  expect(await left).toBe('left')
  await until(async () => (await waiting(picker)) === 1)
  await gateway.post(`/v1/firstlight/pools/${MODEL}/resume`, {}, init)
  expect((await placed).metadata).not.toBe('')
  staying.call.abort()
  await gateway.idle()
})

it('a request that waits gets no engine outside its subset, also if one is discovered meanwhile', async () => {
  await using picker = await openPicker({
    engine: { type: 'llama.cpp' },
    pool: { queue: { max_wait_ms: 10_000, no_engine_wait_ms: 120_000 } },
  })
  const { client, gateway, a } = picker
  const init = { headers: { authorization: `Bearer ${ADMIN_KEY}` } }
  await gateway.post(`/v1/firstlight/pools/${MODEL}/pause`, { mode: 'wait' }, init)
  const call = new ProxyCall(client)
  const placed = call.request({ body: chat(), subset: [a] })
  await until(async () => (await waiting(picker)) === 1)
  await using later = await FakeEngine.open({ 'GET /health': { body: {} }, 'GET *': { status: 404, body: {} } })
  await picker.addEngine({ id: 'later', url: later.url })
  await until(() => gateway.logged('placement_unknown').length > 0)
  await gateway.post(`/v1/firstlight/pools/${MODEL}/resume`, {}, init)
  expect((await placed).metadata).toBe(a)
  call.call.abort()
  await gateway.idle()
})

it('a request gets 504 when the proxy reports no response of the engine within `first_byte_ms`', async () => {
  await using picker = await openPicker({ pool: { limits: { first_byte_ms: 50 } } })
  const call = new ProxyCall(picker.client, FULL_DUPLEX)
  expect((await call.request({ body: chat() })).metadata).not.toBe('')
  expect(await call.next(({ kind }) => kind === 'immediate_response')).toMatchObject({ status: 504 })
  await call.ended
  await picker.gateway.idle()
})

it('a request gets its response although the picker did not run while its `first_byte_ms` passed', async () => {
  await using picker = await openPicker({ pool: { limits: { first_byte_ms: 200 } } })
  const call = new ProxyCall(picker.client, FULL_DUPLEX)
  expect((await call.request({ body: chat() })).metadata).not.toBe('')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000)
  // The response comes only after the timer has fired.
  await turns()
  call.responseHead(200, SSE)
  call.responseBody(token('hello') + DONE, true)
  await call.next(({ kind, endOfStream }) => kind === 'response_body' && endOfStream)
  expect(call.text('response_body')).toBe(token('hello') + DONE)
  call.call.halfClose()
  await call.ended
})

it('usage that only the gateway requested is removed from a stream, wherever its pieces end', async () => {
  await using picker = await openPicker()
  const usage = sseEvent({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 } })
  const stream = token('hello') + usage + DONE
  for (let cut = 1; cut < stream.length; cut += 5) {
    const call = new ProxyCall(picker.client, FULL_DUPLEX)
    await call.request({ body: chat() })
    call.responseHead(200, SSE)
    call.responseBody(stream.slice(0, cut), false)
    call.responseBody(stream.slice(cut), true)
    await call.next(({ kind, endOfStream }) => kind === 'response_body' && endOfStream)
    expect(call.text('response_body')).toBe(token('hello') + DONE)
    call.call.halfClose()
    await call.ended
  }
})

it('headers of a client restrict no choice and set nothing of the gateway', async () => {
  await using picker = await openPicker()
  const call = new ProxyCall(picker.client, FULL_DUPLEX)
  const headers = {
    'x-gateway-destination-endpoint-subset': '10.9.9.9:1',
    'x-gateway-destination-endpoint-served': '10.9.9.9:1',
    'x-firstlight-via': 'another',
  }
  const placed = await call.request({ body: chat(), headers })
  expect([picker.a, picker.b]).toContain(placed.metadata)
  expect(placed.set['x-firstlight-via']).not.toBe('another')
  call.call.abort()
})

it('addresses of a subset may be IPv6, with or without brackets and ports', () => {
  const subset = ['[2001:db8::1]:8000', '2001:db8::2', '[2001:DB8::3]', '10.0.0.1']
  const request = readProcessingRequest(
    message([
      [2, [[1, headerMap({ ':path': '/' })]]],
      [8, metadata(...SUBSET_HINT, subset)],
    ]),
  )
  expect([...subsetOf(request)!]).toEqual(['[2001:db8::1]:8000', '[2001:db8::2]', '[2001:db8::3]', '10.0.0.1'])
})
