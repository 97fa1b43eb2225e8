import { once } from 'node:events'
import net from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { tryEngine } from '../../src/origin/probes/engine-trial.ts'
import { workersLog } from '../../src/platform/workers/log.ts'
import type { Origin, OriginRequest } from '../../src/ports/origin.ts'
import { SILENCE, type Routes } from './fake-answer.ts'
import { FakeEngine, type FakeEngineOptions } from './fake-engine.ts'
import { HeldEngine } from './held-engine.ts'
import { localhost } from './localhost-certificate.ts'
import { DONE, sseAnswer, token } from './sse.ts'
import { until } from '../wait.ts'

const engines: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const engine of engines.splice(0)) await engine.close()
})

async function open(routes: Routes = {}, options: FakeEngineOptions = {}): Promise<FakeEngine> {
  const engine = await FakeEngine.open(routes, options)
  engines.push(engine)
  return engine
}

const post = (url: string, init: RequestInit = {}): Promise<Response> => fetch(url, { method: 'POST', ...init })

it('a path with its method comes before the method and before all', async () => {
  const { url } = await open({ 'POST /a': { body: 'path' }, 'POST *': { body: 'method' }, '*': { status: 404 } })
  expect(await (await post(`${url}/a?x=1`)).text()).toBe('path')
  expect(await (await post(`${url}/b`)).text()).toBe('method')
  expect((await fetch(`${url}/a`)).status).toBe(404)
})

it('a request without a route gets 200 and an empty object', async () => {
  const { url } = await open()
  const response = await fetch(url)
  expect(response.headers.get('content-type')).toBe('application/json')
  expect(await response.json()).toEqual({})
})

it('records method, path, headers and body, with chunks joined', async () => {
  const engine = await open()
  const body = new Blob(['{"a":', '1}']).stream()
  await post(`${engine.url}/p?q`, { body, headers: { 'X-A': 'b' }, duplex: 'half' } as RequestInit)
  expect(engine.posts).toHaveLength(1)
  expect(engine.posts[0]).toMatchObject({ method: 'POST', path: '/p', target: '/p?q', json: { a: 1 } })
  expect(engine.posts[0]!.headers['x-a']).toBe('b')
})

it('a stream has all pieces in order and a complete end', async () => {
  const { url } = await open({ 'POST *': sseAnswer([token('a'), 5, Promise.resolve(), token('b'), DONE]) })
  const response = await post(url)
  expect(response.headers.get('transfer-encoding')).toBe('chunked')
  expect(await response.text()).toBe(token('a') + token('b') + DONE)
})

it.each(['truncate', 'reset'] as const)('a stream that ends with %s is not complete', async (end) => {
  const engine = await open({ 'POST *': sseAnswer([token('a'), 20], { end }) })
  const response = await post(engine.url)
  await expect(response.text()).rejects.toThrow()
  expect(engine.posts.map(({ state }) => state)).toEqual(['truncated'])
})

it('HTTP/1.0 ends the body with the connection', async () => {
  const { url } = await open({ 'POST *': { version: '1.0', body: 'abc' } })
  const response = await post(url)
  expect(response.headers.get('content-length')).toBeNull()
  expect(await response.text()).toBe('abc')
})

it('raw bytes are sent as they are', async () => {
  const engine = await open({ '*': { raw: 'HTTP/1.1 418 \xe9\r\nx', end: 'close' } })
  const socket = net.connect(engine.port, '127.0.0.1').end('GET / HTTP/1.1\r\n\r\n')
  expect(((await once(socket, 'data')) as [Buffer])[0].toString('latin1')).toBe('HTTP/1.1 418 \xe9\r\nx')
})

it('a client that leaves a silent engine is an aborted request', async () => {
  const engine = await open({ 'POST *': SILENCE })
  const client = new AbortController()
  const answer = post(engine.url, { signal: client.signal }).catch(() => null)
  await until(() => engine.running === 1)
  client.abort()
  await answer
  await until(() => engine.aborted === 1)
  expect(engine.running).toBe(0)
})

it('a killed engine refuses connections until it is revived at the same port', async () => {
  const engine = await open()
  const { url } = engine
  await engine.kill()
  await expect(fetch(url)).rejects.toThrow()
  await engine.revive()
  expect((await fetch(url)).status).toBe(200)
  expect(engine.url).toBe(url)
})

it('a fake engine is at an https address with a certificate', async () => {
  const engine = await open({}, { secure: localhost })
  expect(engine.url).toMatch(/^https:/)
  const { request } = await import('node:https')
  const sent = request(engine.url, { ca: localhost.cert }).end()
  const [response] = (await once(sent, 'response')) as [{ statusCode: number; resume(): void }]
  response.resume()
  expect(response.statusCode).toBe(200)
})

it('a held answer begins and ends at the calls of the test', async () => {
  const engine = await HeldEngine.open()
  engines.push(engine)
  const answer = post(`${engine.url}/v1/completions`)
  await until(() => engine.held.length === 1)
  engine.held[0]!.begin(token('a'))
  const response = await answer
  expect(engine.held).toHaveLength(1)
  engine.finish(DONE)
  expect(await response.text()).toBe(token('a') + DONE)
  expect(engine.aborted).toBe(0)
})

it('requests of clients do not include the trials that a gateway sends itself', async () => {
  const engine = await open()
  const origin = {
    async send({ path, body }: OriginRequest) {
      await post(engine.url + path, { body: Buffer.concat(body ?? []) })
      return { status: 404, headers: [], read: async () => Buffer.from('{"detail":"Not Found"}') }
    },
  } as unknown as Origin
  const target = { kind: 'server' as const, id: 'a', url: engine.url, headers: [], binding: null, model: 'm' }
  await tryEngine({ origin, log: workersLog(() => 'silent'), now: () => 0, via: '1.1 a' }, target, 10_000)
  await post(`${engine.url}/v1/completions`, { body: '{"prompt":"hi"}' })
  expect(engine.calls).toEqual(['POST /v1/completions', 'POST /v1/chat/completions', 'POST /v1/completions'])
  expect(engine.posts.map(({ text }) => text)).toEqual(['{"prompt":"hi"}'])
})

it('a held engine answers the trials that a gateway sends itself at once', async () => {
  await using engine = await HeldEngine.open()
  const trial = await post(`${engine.url}/v1/completions`, { body: '{"prompt":"Are you there?"}' })
  expect([trial.status, engine.held.length]).toEqual([200, 0])
})
