/** Headers by which clients and their proxies find out about a response, on any runtime. */
import { request } from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { MODEL, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { protocolStreams, streamed, wholeStream } from './protocol-streams.ts'

interface RawAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: string
}

/** A handshake as WebSocket clients send it. `fetch` refuses to. */
const handshake = (url: string): Promise<RawAnswer> =>
  new Promise((resolve, reject) => {
    const headers = {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    }
    request(url, { headers }, (response) => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (text: string) => (body += text))
      response.on('end', () => resolve({ status: response.statusCode!, headers: response.headers, body }))
    })
      .on('error', reject)
      .end()
  })

export function clientHeadersContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  let engine: FakeEngine
  let gateway: TestGateway
  beforeAll(async () => {
    engine = await FakeEngine.open()
    gateway = await openGateway({ runtime, engines: [engine] })
  })
  afterAll(async () => {
    await gateway.close()
    await engine.close()
  })

  const ids = ({ headers }: Response): unknown => [headers.get('x-request-id'), headers.get('request-id')]
  const ask = async (path: string, body: object): Promise<Response> => {
    const response = await gateway.post(path, { model: MODEL, ...body }, { headers: { 'x-request-id': 'ours-1' } })
    await response.text()
    return response
  }

  describe.each(protocolStreams.map((one) => [one.name, one] as const))(`headers of %s on ${name}`, (_, protocol) => {
    const expected = protocol.name === 'messages' ? ['ours-1', 'ours-1'] : ['ours-1', null]

    it(`headers of a stream of ${protocol.name} on ${name} have the id of the request, and forbid buffering`, async () => {
      engine.routes = {
        'POST *': streamed(wholeStream(protocol, 'hi'), {
          headers: { 'request-id': 'theirs', 'x-request-id': 'theirs' },
        }),
      }
      const response = await ask(protocol.path, { ...protocol.body, stream: true })
      expect([response.status, ids(response)]).toEqual([200, expected])
      expect(response.headers.get('x-accel-buffering')).toBe('no')
    })

    it(`headers of an error of ${protocol.name} on ${name} have the id of the request`, async () => {
      expect(ids(await ask(protocol.path, { ...protocol.body, model: 'none' }))).toEqual(expected)
      engine.routes = { 'POST *': { status: 400, body: { error: { message: 'no' } } } }
      const refused = await ask(protocol.path, protocol.body)
      expect([refused.status, ids(refused)]).toEqual([400, expected])
      expect(refused.headers.get('x-accel-buffering')).toBeNull()
    })
  })

  it(`rate limits of a key on ${name} replace those that an engine sends, and its others pass`, async () => {
    const secret = 'limited-secret-for-tests'
    const keys = [
      { name: 'limited', secret, limits: { requests_per_min: 50 } },
      { name: 'free', secret: 'free-secret-for-tests' },
    ]
    await using limited = await openGateway({ runtime, engines: [engine], config: { open: false, keys } })
    const theirs = { 'x-ratelimit-limit-requests': '999', 'x-ratelimit-remaining-tokens': '7', 'x-other': '1' }
    const limitsFor = async (key: string): Promise<unknown> => {
      const headers = { authorization: `Bearer ${key}` }
      const response = await limited.post('/v1/chat/completions', { model: MODEL, messages: [] }, { headers })
      await response.text()
      return [...Object.keys(theirs), 'x-ratelimit-remaining-requests'].map((one) => response.headers.get(one))
    }
    for (const status of [200, 400]) {
      engine.routes = { 'POST *': { status, headers: theirs, body: { choices: [], error: null } } }
      expect(await limitsFor(secret)).toEqual(['50', null, '1', status === 200 ? '49' : '48'])
      expect(await limitsFor('free-secret-for-tests')).toEqual(['999', '7', '1', null])
    }
  })

  it(`a query on ${name} reaches the engine, but for a model that the key was not checked for`, async () => {
    engine.routes = { 'POST *': { body: { choices: [] } } }
    for (const { path, body } of protocolStreams) {
      await ask(`${path}?beta=true&model=other&x=1`, body)
      expect(engine.posts.at(-1)!.target).toBe(`${path}?beta=true&x=1`)
    }
  })

  it.each(['/v1/responses', '/v1/chat/completions'])(
    `a WebSocket at %s on ${name} is refused so that clients send HTTP at once`,
    async (path) => {
      const { status, headers, body } = await handshake(gateway.url + path)
      expect({ status, allow: headers['allow'] }).toEqual({ status: 426, allow: 'POST' })
      expect(JSON.parse(body)).toMatchObject({ error: { code: 'websocket_unsupported' } })
    },
  )

  it(`paths of providers on ${name} that no engine has are unknown, and not taken for a response’s id`, async () => {
    for (const path of ['/v1/responses/compact', '/v1/responses/input_tokens']) {
      const response = await gateway.post(path, { model: MODEL, input: 'x' })
      expect([response.status, await response.json()]).toMatchObject([404, { error: { code: 'unknown_url' } }])
    }
  })
}
