/** CORS headers of engines are about the engine's own address and never reach a client. */
import http, { type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { corsContract, corsDocument, ours, readable } from '../../contracts/cors.ts'
import { gatewayDocument, gatewayKeys, fetchRequest } from '../../contracts/gateway.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { DONE, sseAnswer } from '../../kit/sse.ts'
import { servers } from '../inbound/both-servers.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

corsContract('a gateway on Node', async (document) => {
  const gateway = await startNodeGateway(document)
  return { send: (request) => fetch(fetchRequest(gateway.url, request)), close: gateway.close }
})

/** Headers of vLLM for every response to a page, with additions of a proxy. */
const theirs = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Credentials': 'true',
  'access-control-expose-headers': 'x-theirs',
  Vary: 'accept-encoding',
}
const WHOLE = { headers: theirs, body: { id: 'resp_1', choices: [] } }
const EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'

let engine: FakeEngine
beforeAll(async () => {
  engine = await FakeEngine.open({
    'POST *': ({ json: { user, stream: isStream } }) => {
      if (user === 'wrong') return { status: 400, headers: theirs, body: { error: { message: 'wrong' } } }
      return isStream === true ? sseAnswer([EVENT, DONE], { headers: theirs }) : WHOLE
    },
    '*': WHOLE,
  })
})
afterAll(() => engine.close())

/** Two pools: `qwen`, and `dead`, whose engine does not exist. */
function documentOf(cors: object | null, pool: object = {}): Record<string, unknown> {
  const { url } = engine
  const base = cors === null ? gatewayDocument([url]) : corsDocument([url], cors)
  const [cluster] = base['clusters'] as { id: string; pools: object[] }[]
  const dead = { model: 'dead', engines: [{ id: 'dead', url: 'http://127.0.0.1:9' }] }
  return { ...base, clusters: [{ ...cluster!, pools: [{ ...cluster!.pools[0], ...pool }, dead] }] }
}

type Ask = (
  body: object,
  headers?: Readonly<Record<string, string>>,
  path?: string,
  method?: string,
) => Promise<IncomingMessage>

/** Each header line that affects CORS and caches. */
const lines = ({ rawHeaders }: IncomingMessage): string[] =>
  rawHeaders
    .flatMap((name, i) => (i % 2 === 0 ? [`${name.toLowerCase()}: ${rawHeaders[i + 1]}`] : []))
    .filter((line) => /^(?:vary|access-control-)/.test(line))
    .toSorted()

const asker =
  (url: string, host?: string): Ask =>
  (body, headers = {}, path = '/v1/chat/completions', method = 'POST') =>
    new Promise((resolve, reject) => {
      const sent = method === 'POST' ? JSON.stringify({ model: 'qwen', messages: [], ...body }) : ''
      const own = {
        authorization: `Bearer ${gatewayKeys.broad}`,
        connection: 'close',
        ...(host === undefined ? {} : { host }),
        ...(sent === '' ? {} : { 'content-type': 'application/json', 'content-length': sent.length }),
      }
      http
        .request(url + path, { method, headers: { ...own, ...headers } }, resolve)
        .on('error', reject)
        .end(sent)
    })

interface RunningGateway {
  readonly url: string
  close(): Promise<void>
}

const ways: readonly (readonly [string, (document: object) => Promise<RunningGateway>, string | undefined, object])[] =
  [
    ['through the own HTTP/1.1 server', startNodeGateway, servers.plain, {}],
    ['through node:http', startNodeGateway, servers.adapter, {}],
    ['on Workers, read on the way', startBuiltWorker, undefined, { observe_share: 1 }],
    ['on Workers, natively', startBuiltWorker, undefined, { observe_share: 0 }],
  ]

describe.each(ways)('an engine’s answer to a page, %s', (_way, start, host, pool) => {
  let gateway: RunningGateway
  let ask: Ask
  beforeAll(async () => {
    gateway = await start(documentOf({ origins: [ours] }, pool))
    ask = asker(gateway.url, host)
  })
  afterAll(() => gateway.close())

  const lent = Object.entries(readable()).map(([name, value]) => `${name}: ${value}`)
  /** One line or two lines: both mean the same. */
  const both = (response: IncomingMessage) =>
    lines(response)
      .flatMap((line) =>
        line.startsWith('vary: ')
          ? line
              .slice(6)
              .split(/, */)
              .map((name) => `vary: ${name}`)
          : [line],
      )
      .toSorted()
  const page = { origin: ours }

  it.each([
    ['in one piece', {}, 200],
    ['as a stream', { stream: true }, 200],
    ['that refuses', { user: 'wrong' }, 400],
  ])(
    '%s is readable by the page only through the gateway’s headers, and keeps its other vary',
    async (_kind, body, status) => {
      const response = await ask(body, page)
      expect([response.statusCode, both(response)]).toEqual([status, [...lent, 'vary: accept-encoding'].toSorted()])
      expect(await text(response)).toContain(status === 400 ? 'wrong' : 'choices')
    },
  )

  it('an answer to a page is readable if no engine is available', async () => {
    const response = await ask({ model: 'dead' }, page)
    expect([response.statusCode, both(response)]).toEqual([503, lent.toSorted()])
    expect(await text(response)).toContain('no_engine_available')
  })

  it('an answer to a page has no CORS headers for clients without an origin and for other origins', async () => {
    for (const stream of [false, true]) {
      const response = await ask({ stream })
      expect(lines(response)).toEqual(['vary: accept-encoding'])
      await text(response)
      const other = await ask({ stream }, { origin: 'https://evil.example.com' })
      expect(both(other)).toEqual(['vary: accept-encoding', 'vary: origin'])
      await text(other)
    }
  })

  it('an answer to a page is requested from the engine without the page’s origin', () => {
    const origins = engine.posts.map(({ headers }) => headers['origin'])
    expect(origins.length).toBeGreaterThan(0)
    expect(new Set(origins)).toEqual(new Set([undefined]))
  })

  it('an answer to a page is readable if stored on the engine', async () => {
    await text(await ask({ input: 'x' }, page, '/v1/responses'))
    const kept = await ask({}, page, '/v1/responses/resp_1', 'GET')
    expect([kept.statusCode, both(kept)]).toEqual([200, [...lent, 'vary: accept-encoding'].toSorted()])
    await text(kept)
  })
})

it('a response has no CORS headers of the engine if the gateway allows no origin', async () => {
  const gateway = await startNodeGateway(documentOf(null))
  for (const host of Object.values(servers)) {
    for (const stream of [false, true]) {
      const response = await asker(gateway.url, host)({ stream }, { origin: ours })
      expect([response.statusCode, lines(response)]).toEqual([200, ['vary: accept-encoding']])
      await text(response)
    }
  }
  await gateway.close()
})
