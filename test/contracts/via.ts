/**
 * Routing loops, on any runtime: the `via` header that engines get, requests that are refused because of it, and an
 * engine whose address leads to a balancer in front of the same gateway.
 */
import http from 'node:http'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { FakeAnswer } from '../kit/fake-answer.ts'
import type { EngineRequest } from '../kit/engine-request.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { openReverseProxy } from '../kit/reverse-proxy.ts'
import { sseAnswer } from '../kit/sse.ts'
import { until } from '../wait.ts'
import { type RunningGateway, runtimeNames, startRuntime, type Runtime } from '../kit/gateway.ts'

const ADMIN = 'admin-key-1'
const CHAT = '/v1/chat/completions'
const OWN = /^1\.1 firstlight-[0-9a-f]{8}$/
const SOMEBODY = '1.1 firstlight-00000000'
const PAIR = {
  kv_transfer_params: { remote_engine_id: 'p', remote_block_ids: [1], remote_host: '127.0.0.1', remote_port: 1 },
}

interface ViaWay {
  readonly runtime: Runtime
  /** Value of `host`; absent: the gateway's own. */
  readonly host?: string
  /** `observe_share` of the pools. */
  readonly observeShare: number
}

interface Answer {
  readonly status: number
  readonly headers: http.IncomingHttpHeaders
  readonly body: string
}

interface TestRequest {
  readonly path?: string
  readonly method?: string
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  readonly more?: object
}

interface Site {
  readonly url: string
  close(): Promise<void>
}

export function viaContract(way: string, { runtime, host, observeShare }: ViaWay): void {
  const name = `a gateway on ${runtimeNames[runtime]}, ${way}`
  /** Heads of POSTs and of requests for stored responses, as the engine received them. */
  const heads: EngineRequest['headers'][] = []
  /** POSTs of clients that passed through the loop. */
  let rounds = 0
  /** Engines whose trials passed through the loop. */
  let trials: string[] = []
  let sites: Site[] = []
  let subject: RunningGateway

  const openEngine = (): Promise<FakeEngine> =>
    FakeEngine.open({
      '*': ({ method, path, headers, json, isTrial }): FakeAnswer => {
        if (method === 'GET' && !path.includes('/v1/responses/')) return { body: '' }
        if (isTrial) return { body: { id: 'cmpl_1', choices: [{ text: 'a' }] } }
        heads.push(headers)
        if (headers['via']?.includes(SOMEBODY) && headers['x-meets'] === 'somebody')
          return { status: 508, body: { error: {} } }
        if (json['stream'] === true)
          return sseAnswer([
            'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
          ])
        return { body: { id: 'resp_1', choices: [{ text: 'a' }], ...PAIR } }
      },
    })

  /** Opens a balancer whose only backend is the gateway itself, so its health checks pass. */
  const openBalancer = (): Promise<Site> =>
    openReverseProxy(({ method, url, headers }) => {
      // The gateway's own trials have no id.
      if (method === 'POST' && headers['x-request-id'] === undefined) trials.push(url!.split('/')[1]!)
      else if (method === 'POST') rounds++
      return {
        to: subject.url,
        target: url!.replace(/^\/r\d?/, ''),
        headers: { ...headers, ...(host === undefined ? {} : { host }), connection: 'close' },
      }
    })

  function ask({ path = CHAT, method = 'POST', headers = {}, more = {} }: TestRequest = {}): Promise<Answer> {
    const sent =
      method === 'POST' ? JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }], ...more }) : ''
    return new Promise((resolve, reject) => {
      const all = {
        connection: 'close',
        ...(host === undefined ? {} : { host }),
        ...(sent === '' ? {} : { 'content-type': 'application/json', 'content-length': sent.length }),
        ...headers,
      }
      const request = http.request(
        subject.url + path,
        { method, headers: all as http.OutgoingHttpHeaders },
        (response) => {
          void text(response).then(
            (body) => resolve({ status: response.statusCode!, headers: response.headers, body }),
            reject,
          )
        },
      )
      request.on('error', reject)
      request.end(sent)
    })
  }

  /** Values of `via` that the engine received, one for each leg. */
  async function vias(request: TestRequest = {}): Promise<(string | undefined)[]> {
    heads.length = 0
    const { status, body } = await ask(request)
    expect(status, body).toBe(200)
    return heads.map(({ via }) => via)
  }

  const view = async (model: string) => {
    const response = await fetch(`${subject.url}/v1/firstlight/fleet`, {
      headers: { authorization: `Bearer ${ADMIN}` },
    })
    const { pools } = (await response.json()) as {
      pools: readonly {
        model: string
        bookings: number
        engines: readonly { id: string; circuit: string }[]
      }[]
    }
    return pools.find((pool) => pool.model === model)!
  }
  const circuits = async (model: string): Promise<Record<string, string>> =>
    Object.fromEntries((await view(model)).engines.map(({ id, circuit }) => [id, circuit]))
  /** Resolves when no request is booked: the failure of an attempt may be reported after the answer. */
  const idle = (model: string) => until(async () => (await view(model)).bookings === 0)

  let own: string
  beforeAll(async () => {
    sites = await Promise.all([openEngine(), openEngine(), openBalancer()])
    const [one, two, balancer] = sites.map(({ url }) => url)
    const at = (id: string, url: string | undefined) => ({ id, url: `${url}/${id}` })
    const common = {
      policy: 'round_robin',
      observe_share: observeShare,
      retry: { share: 1, min_per_s: 1000 },
      circuit: { failures: 3, open_ms: 60_000 },
    }
    subject = await startRuntime(runtime, {
      version: 1,
      open: true,
      admin: { secret: ADMIN },
      clusters: [
        {
          id: 'c',
          pools: [
            { ...common, model: 'm', engines: [at('a', one)] },
            { ...common, model: 'two', engines: [at('a2', one), at('b2', two)] },
            {
              ...common,
              model: 'split',
              split: { connector: 'nixl', mode: 'always' },
              engines: [
                { ...at('p', one), role: 'prefill' },
                { ...at('d', two), role: 'decode' },
              ],
            },
            { ...common, model: 'round', circuit: { failures: 1000, open_ms: 1000 }, engines: [at('r', balancer)] },
            { ...common, model: 'mixed', engines: [at('r3', balancer), at('a3', one)] },
          ],
        },
      ],
    })
    own = (await vias())[0]!
  })
  beforeEach(() => {
    rounds = 0
    trials = []
  })
  afterAll(async () => {
    await subject.close()
    for (const site of sites) await site.close()
  })

  describe(`a request through ${name}`, () => {
    it(`a request through ${name} names the gateway to the engine, on every leg, and the same each time`, async () => {
      expect(own).toMatch(OWN)
      expect(await vias({ more: { stream: true } })).toEqual([own])
      expect(await vias({ path: '/v1/messages', more: { max_tokens: 1 } })).toEqual([own])
      expect(await vias({ more: { model: 'split' } })).toEqual([own, own])
    })

    it(`a request through ${name} names the gateway also if only the engine with a stored response can answer`, async () => {
      expect(await vias({ path: '/v1/responses', more: { input: 'x' } })).toEqual([own])
      expect(await vias({ path: '/v1/responses/resp_1', method: 'GET' })).toEqual([own])
    })

    it(`a request through ${name} keeps the via entries of others, in order`, async () => {
      expect(await vias({ headers: { via: '1.0 a, 1.1 b (c, d)' } })).toEqual([`1.0 a, 1.1 b (c, d), ${own}`])
      expect(await vias({ headers: { via: ['1.0 a', 'HTTP/2 b'] } })).toEqual([`1.0 a, HTTP/2 b, ${own}`])
      expect(await vias({ headers: { via: SOMEBODY, 'cdn-loop': 'a.example; loops=1, b' } })).toEqual([
        `${SOMEBODY}, ${own}`,
      ])
      expect(heads[0]!['cdn-loop']).toBe('a.example; loops=1, b')
    })

    it(`a request through ${name} drops a via header that is longer than any valid path`, async () => {
      for (const via of ['x'.repeat(6_000), '1.1 a,'.repeat(1_000), '('.repeat(6_000), '1.1 a (b'.repeat(700)])
        expect(await vias({ headers: { via } })).toEqual([own])
    })

    it.each([
      ['alone', (via: string) => via],
      ['in other letters', (via: string) => via.toUpperCase()],
      ['between others', (via: string) => `1.0 a (b), ${via} (here), 1.1 c`],
      ['behind thousands', (via: string) => `${'1.1 a,'.repeat(1_000)} ${via}`],
      ['behind a comment that never ends', (via: string) => `1.1 a (b, ${via}, 1.1 c (d)`],
    ])(
      `a request through ${name} is rejected if it contains this gateway, from any client and in any spelling: %s`,
      async (_, spell) => {
        heads.length = 0
        const refused = await ask({ headers: { via: spell(own) }, more: { padding: 'x'.repeat(300_000) } })
        expect([refused.status, refused.headers['x-should-retry'], refused.headers['retry-after']]).toEqual([
          508,
          'false',
          undefined,
        ])
        expect(JSON.parse(refused.body)).toEqual({
          error: {
            message: expect.stringContaining('Routing loop'),
            type: 'server_error',
            param: null,
            code: 'loop_detected',
          },
        })
        expect(refused.body).not.toMatch(/127\.0|firstlight-/)
        expect(heads).toEqual([])
      },
    )

    it(`a request through ${name} is rejected in the format of each endpoint, and on every method`, async () => {
      const message = await ask({ path: '/v1/messages', headers: { via: own }, more: { max_tokens: 1 } })
      expect([message.status, JSON.parse(message.body)]).toMatchObject([
        508,
        { type: 'error', error: { type: 'api_error' } },
      ])
      for (const path of ['/v1/models', '/health', '/v1/responses/resp_1', '/nowhere'])
        expect((await ask({ path, method: 'GET', headers: { via: own } })).status, path).toBe(508)
    })

    it(`a request through ${name} is accepted if the name occurs only as text, or belongs to another gateway`, async () => {
      for (const via of [`1.1 a (${own})`, `${own}0`, `${own}.example`, `${own.slice(4)} 1.1`, SOMEBODY])
        expect(await vias({ headers: { via } })).toEqual([`${via}, ${own}`])
    })
  })

  describe(`an engine that is a balancer before ${name}`, () => {
    it(`an engine that is a balancer before ${name} ends a request that no other engine can serve, after one round`, async () => {
      for (const more of [{}, { stream: true }]) {
        rounds = 0
        const answer = await ask({ more: { model: 'round', ...more } })
        expect([answer.status, answer.headers['x-should-retry'], JSON.parse(answer.body)]).toMatchObject([
          508,
          'false',
          { error: { code: 'loop_detected' } },
        ])
        expect(answer.body).not.toContain('127.0')
        expect(rounds).toBe(1)
      }
    })

    it(`an engine that is a balancer before ${name} costs no client a response if there is another engine, which then gets all requests`, async () => {
      for (let i = 0; i < 12; i++) {
        const answer = await ask({ more: { model: 'mixed' } })
        expect([answer.status, answer.headers['x-firstlight-engine']]).toEqual([200, 'a3'])
        await idle('mixed')
      }
      expect(rounds).toBe(3)
      // A trial, which comes a second after the circuit has opened, meets the loop as well and does not close it.
      await until(() => trials.filter((id) => id === 'r3').length >= 2)
      expect((await ask({ more: { model: 'mixed' } })).headers['x-firstlight-engine']).toBe('a3')
      expect(rounds).toBe(3)
      expect(await circuits('mixed')).toEqual({ r3: 'open', a3: 'closed' })
    })

    it(`an engine that is a balancer before ${name} is not seen where an engine refuses a client’s own header: no circuit opens, and others are served`, async () => {
      for (let i = 0; i < 12; i++)
        expect((await ask({ more: { model: 'two' }, headers: { via: SOMEBODY, 'x-meets': 'somebody' } })).status).toBe(
          508,
        )
      expect(await circuits('two')).toEqual({ a2: 'closed', b2: 'closed' })
      const engines = await Promise.all(Array.from({ length: 4 }, () => ask({ more: { model: 'two' } })))
      expect(new Set(engines.map(({ headers }) => headers['x-firstlight-engine']))).toEqual(new Set(['a2', 'b2']))
    })
  })
}
