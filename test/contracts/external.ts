/** An engine of a provider (`kind: external`): when it gets requests, and their contents. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { openGateway, runtimeNames, startRuntime, type RunningGateway, type Runtime } from '../kit/gateway.ts'
import { until } from '../wait.ts'

const ANSWER = { model: 'named-by-the-server', choices: [{ text: 'a' }], usage: { prompt_tokens: 3 } }

const openSite = (): Promise<FakeEngine> =>
  FakeEngine.open({ '*': { body: ANSWER, headers: { connection: 'close' }, end: 'close' } })

export function externalContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  let own: FakeEngine
  let provider: FakeEngine
  let subject: RunningGateway

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
  beforeAll(async () => {
    own = await openSite()
    provider = await openSite()
    subject = await startRuntime(runtime, {
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
                { id: 'provider', url: provider.url, kind: 'external', provider_model: 'their-m', key: 'provider-key' },
              ],
            },
          ],
        },
      ],
    })
  })
  afterAll(async () => {
    await subject.close()
    await Promise.all([own.close(), provider.close()])
  })
  beforeEach(() => {
    own.routes['*'] = provider.routes['*'] = { body: ANSWER, headers: { connection: 'close' }, end: 'close' }
    for (const { requests, posts } of [own, provider]) requests.length = posts.length = 0
  })

  describe(`a provider as the last resort, on ${name}`, () => {
    it('a provider gets no request while an engine serves', async () => {
      for (let sent = 0; sent < 5; sent++) expect((await ask()).status).toBe(200)
      expect([own.posts.length, provider.posts.length]).toEqual([5, 0])
      expect(own.posts[0]!.json).toMatchObject({ model: 'm' })
      expect(Object.keys(own.posts[0]!.headers).filter((one) => /rank|override|priority/.test(one))).toEqual([])
    })

    it('a provider gets the request of a failed engine, with its own model name and key', async () => {
      own.routes['*'] = { status: 500, body: ANSWER, headers: { connection: 'close' }, end: 'close' }
      const { status } = await ask({ model: 'alias', temperature: 0.5 })
      expect(status).toBe(200)
      expect(provider.posts.map(({ target, headers, json }) => [target, headers['authorization'], json])).toEqual([
        [
          '/v1/chat/completions',
          'Bearer provider-key',
          { model: 'their-m', messages: [{ role: 'user', content: 'x' }], temperature: 0.5 },
        ],
      ])
    })

    it('S19: a provider gets no field that the client has not sent, nor private headers', async () => {
      own.routes['*'] = { status: 500, body: ANSWER, headers: { connection: 'close' }, end: 'close' }
      await ask({ stream: true })
      const { json, headers } = provider.posts[0]!
      expect(json).toEqual({ model: 'their-m', messages: [{ role: 'user', content: 'x' }], stream: true })
      expect(Object.keys(headers).filter((one) => /rank|override|priority/.test(one))).toEqual([])
    })

    it('the 429 of a provider reaches the client, with a retry-after', async () => {
      own.routes['*'] = { status: 500, body: ANSWER, headers: { connection: 'close' }, end: 'close' }
      provider.routes['*'] = { status: 429, body: ANSWER, headers: { connection: 'close' }, end: 'close' }
      const response = await post({})
      expect([response.status, response.headers.get('retry-after')]).toEqual([429, '1'])
      expect(await response.json()).toMatchObject({ model: 'named-by-the-server' })
    })

    it.each([
      ['402', 402, { error: { message: 'Insufficient Balance', code: 'invalid_request_error' } }],
      ['a quota that is used up', 429, { error: { message: 'You exceeded …', code: 'insufficient_quota' } }],
      ['no credit', 400, { type: 'error', error: { message: 'Your credit balance is too low to access the API.' } }],
    ])('a provider without funds (%s) is left for the next one', async (_how, status, body) => {
      await using first = await FakeEngine.open({ 'POST *': { status, body } })
      await using second = await FakeEngine.open({ 'POST *': { body: ANSWER } })
      const engines = [first, second].map(({ url }, at) => ({
        id: `p${at}`,
        url,
        kind: 'external',
        provider_model: 'm',
      }))
      const pool = { policy: 'round_robin', retry: { share: 1, min_per_s: 100 }, circuit: { failures: 1000 } }
      await using gateway = await openGateway({ runtime, engines, pool })
      for (let sent = 0; sent < 4; sent++) expect((await gateway.chat()).status).toBe(200)
      expect(first.posts.length).toBeGreaterThan(0)
      await gateway.idle()
    })

    it('a provider is never probed', async () => {
      // A Worker's object probes when its pool has traffic.
      await until(async () => (await ask(), own.requests.some(({ method }) => method === 'GET')))
      expect(provider.requests.filter(({ method }) => method === 'GET')).toEqual([])
    })
  })
}
