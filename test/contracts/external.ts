/** An engine of a provider (`kind: external`): when it gets requests, and their contents. */
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { RunningSubject } from './clients.ts'

type Start = (document: Record<string, unknown>) => Promise<RunningSubject>

interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: http.IncomingHttpHeaders
  readonly body: Readonly<Record<string, unknown>> | null
}

interface Site {
  readonly url: string
  readonly seen: Seen[]
  readonly server: http.Server
  status: number
}

async function openSite(): Promise<Site> {
  const seen: Seen[] = []
  const site = { url: '', seen, status: 200 } as unknown as { -readonly [Key in keyof Site]: Site[Key] }
  site.server = http.createServer((request, response) => {
    void text(request).then((sent) => {
      const { method, url, headers } = request
      seen.push({ method: method!, url: url!, headers, body: sent === '' ? null : (JSON.parse(sent) as Seen['body']) })
      const answer = { model: 'named-by-the-server', choices: [{ text: 'a' }], usage: { prompt_tokens: 3 } }
      response
        .writeHead(site.status, { 'content-type': 'application/json', connection: 'close' })
        .end(JSON.stringify(answer))
    })
  })
  await new Promise<void>((resolve) => site.server.listen(0, '127.0.0.1', resolve))
  site.url = `http://127.0.0.1:${(site.server.address() as AddressInfo).port}`
  return site
}

export function externalContract(name: string, start: Start): void {
  let own: Site
  let provider: Site
  let subject: RunningSubject

  const post = (more: object) =>
    fetch(`${subject.url}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'X-Override-Priority': '-9',
        x_override_rid: 'other',
        'x-vllm-priority': '-9',
        X_data_parallel_rank: '1',
      },
      body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }], ...more }),
    })
  const ask = async (more: object = {}) => {
    const response = await post(more)
    return { status: response.status, body: (await response.json()) as { model?: string } }
  }
  const posts = (site: Site) => site.seen.filter(({ method }) => method === 'POST')

  beforeAll(async () => {
    own = await openSite()
    provider = await openSite()
    subject = await start({
      open: true,
      clusters: [
        {
          id: 'c',
          pools: [
            {
              model: 'm',
              aliases: ['alias'],
              retry: { share: 1, min_per_s: 100 },
              circuit: { failures: 1000 },
              stats_interval_ms: 100,
              engines: [
                { id: 'own', url: own.url },
                { id: 'provider', url: provider.url, kind: 'external', provider_model: 'their-m', key: { env: 'K' } },
              ],
            },
          ],
        },
      ],
    })
  })
  afterAll(async () => {
    await subject.close()
    for (const { server } of [own, provider]) server.closeAllConnections()
    for (const { server } of [own, provider]) server.close()
  })
  beforeEach(() => {
    own.status = 200
    for (const { seen } of [own, provider]) seen.length = 0
  })

  describe(`a provider as the last resort, on ${name}`, () => {
    it('gets no request while an engine serves', async () => {
      for (let sent = 0; sent < 5; sent++) expect((await ask()).status).toBe(200)
      expect([posts(own).length, posts(provider).length]).toEqual([5, 0])
      expect(posts(own)[0]!.body).toMatchObject({ model: 'm' })
      expect(Object.keys(posts(own)[0]!.headers).filter((one) => /rank|override|priority/.test(one))).toEqual([])
    })

    it('gets the request of a failed engine, with its own model name and key', async () => {
      own.status = 500
      const { status } = await ask({ model: 'alias', temperature: 0.5 })
      expect(status).toBe(200)
      expect(posts(provider).map(({ url, headers, body }) => [url, headers.authorization, body])).toEqual([
        [
          '/v1/chat/completions',
          'Bearer provider-key',
          { model: 'their-m', messages: [{ role: 'user', content: 'x' }], temperature: 0.5 },
        ],
      ])
    })

    it('S19: gets no field that the client has not sent, nor private headers', async () => {
      own.status = 500
      await ask({ stream: true })
      const [{ body, headers }] = posts(provider) as [Seen]
      expect(body).toEqual({ model: 'their-m', messages: [{ role: 'user', content: 'x' }], stream: true })
      expect(Object.keys(headers).filter((one) => /rank|override|priority/.test(one))).toEqual([])
    })

    it('sends its own 429 to the client, with a retry-after', async () => {
      own.status = 500
      provider.status = 429
      const response = await post({})
      expect([response.status, response.headers.get('retry-after')]).toEqual([429, '1'])
      expect(await response.json()).toMatchObject({ model: 'named-by-the-server' })
    })

    it('is never probed', async () => {
      // A Worker's object probes when its pool has traffic.
      await expect
        .poll(async () => (await ask(), own.seen.some(({ method }) => method === 'GET')), { timeout: 10_000 })
        .toBe(true)
      expect(provider.seen.filter(({ method }) => method === 'GET')).toEqual([])
    })
  })
}
