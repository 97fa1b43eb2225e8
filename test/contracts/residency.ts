/** Keys that are bound to regions, on any runtime: no cluster elsewhere gets a request of theirs, whatever fails. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../wait.ts'
import type { FakeAnswer, Routes } from '../kit/fake-answer.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { ADMIN_KEY, MODEL, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { nodeConfig } from '../kit/node-gateway.ts'
import { completion, DONE, sseAnswer, token } from '../kit/sse.ts'

/** A stream that breaks after its first token. */
const BROKEN: FakeAnswer = { ...sseAnswer([token('Hel')]), end: 'reset' }
const FAILED: FakeAnswer = { status: 500, body: {} }
const ANSWER: FakeAnswer = { body: completion() }
const STORED: FakeAnswer = { body: { id: 'resp_1', object: 'response', status: 'completed', output: [] } }

const KEYS = [
  { name: 'bound', secret: 'secret-of-bound', regions: ['eu'], allow_overrides: true },
  { name: 'free', secret: 'secret-of-free' },
  { name: 'member', secret: 'secret-of-member', team: 'bank' },
  { name: 'edge', secret: 'secret-of-edge', edge: true, allow_overrides: true },
]

/** Attempts are bounded by the engines alone. */
const POOL = {
  retry: { share: 1, min_per_s: 1000, mid_stream: 'replay', hedge_ms: 200 },
  circuit: { max_ejected_share: 0 },
}

const as = (key: string, headers: Readonly<Record<string, string>> = {}): RequestInit => ({
  headers: { authorization: `Bearer secret-of-${key}`, ...headers },
})

/** Cluster and status of each of some chats with different sessions. */
async function chats(gateway: TestGateway, init: RequestInit, count = 6): Promise<Set<string>> {
  const seen = new Set<string>()
  for (let at = 0; at < count; at++) {
    const response = await gateway.chat({ user: `user ${at}` }, init)
    await response.text()
    seen.add(`${response.status} ${response.headers.get('x-firstlight-cluster')}`)
  }
  return seen
}

/** Sends chats until both regions have answered one. */
async function untilBoth(gateway: TestGateway, init: RequestInit): Promise<void> {
  const seen = new Set<string>()
  let at = 0
  await until(async () => {
    const response = await gateway.chat({ user: `user ${at++}` }, init)
    await response.text()
    return seen.add(`${response.status} ${response.headers.get('x-firstlight-cluster')}`).size === 2
  }, 1)
  expect(seen).toEqual(new Set(['200 eu-1', '200 us-1']))
}

export function residencyContract(runtime: Runtime): void {
  describe(`a key bound to a region on ${runtimeNames[runtime]}`, () => {
    const open: { close(): Promise<unknown> | void }[] = []
    let gateway: TestGateway
    let engines: readonly FakeEngine[]
    let us: FakeEngine
    /** Answer of the engines in `eu`. */
    let answer: FakeAnswer | Promise<FakeAnswer> = ANSWER
    let usBefore = 0

    const engine = async (routes: Routes): Promise<FakeEngine> => {
      const one = await FakeEngine.open({ 'GET *': { body: {} }, ...routes })
      open.push(one)
      return one
    }
    const start = async (config: object): Promise<TestGateway> => {
      const one = await openGateway({
        runtime,
        config: { open: false, admin: { secret: ADMIN_KEY }, keys: KEYS, teams: [{ name: 'bank' }], ...config },
      })
      open.push(one)
      return one
    }
    const eu = () => engines.slice(0, 2)
    const euPosts = (): number => eu().reduce((sum, { posts }) => sum + posts.length, 0)
    const usPosts = (): number => us.posts.length - usBefore

    beforeAll(async () => {
      const own: Routes = { 'POST *': () => answer }
      engines = [await engine(own), await engine(own), await engine({ 'POST *': ANSWER })]
      us = engines[2]!
      gateway = await start({
        teams: [{ name: 'bank', regions: ['eu'] }],
        ...(runtime === 'worker' ? { issued_keys: {} } : {}),
        clusters: [
          {
            id: 'us-1',
            region: 'us',
            pools: [
              { model: MODEL, engines: [{ id: 'us0', url: us.url }], ...POOL },
              { model: 'far', engines: [{ id: 'us1', url: `${us.url}/far` }] },
            ],
          },
          {
            id: 'eu-1',
            region: 'eu',
            pools: [
              { model: MODEL, engines: eu().map(({ url }, at) => ({ id: `eu${at}`, url })), ...POOL },
              {
                model: 'mirrored',
                engines: [{ id: 'eu2', url: `${eu()[0]!.url}/mirrored` }],
                mirror: { to: 'far', share: 1 },
              },
            ],
          },
        ],
      })
    })
    afterAll(async () => {
      for (const one of open.splice(0).reverse()) await one.close()
    })
    beforeEach(() => {
      answer = ANSWER
      usBefore = us.posts.length
    })

    it('a bound key sends every request to its region, and so does a key of a team with regions; others use both', async () => {
      expect(await chats(gateway, as('bound'))).toEqual(new Set(['200 eu-1']))
      expect(await chats(gateway, as('member'))).toEqual(new Set(['200 eu-1']))
      expect(usPosts()).toBe(0)
      await untilBoth(gateway, as('free'))
    })

    it('a bound key cannot be widened or narrowed by a client’s header; an edge narrows its own requests', async () => {
      expect(await chats(gateway, as('bound', { 'x-firstlight-regions': 'us' }))).toEqual(new Set(['200 eu-1']))
      await untilBoth(gateway, as('free', { 'x-firstlight-regions': 'us' }))
      expect(await chats(gateway, as('edge', { 'x-firstlight-regions': 'eu, asia' }))).toEqual(new Set(['200 eu-1']))
      expect(await chats(gateway, as('edge', { 'x-firstlight-regions': '' }), 1)).toEqual(new Set(['404 null']))
    })

    it('a bound key sees only models of its region, and an error that names its regions', async () => {
      const list = (await (await fetch(`${gateway.url}/v1/models`, as('bound'))).json()) as {
        readonly data: readonly { readonly id: string }[]
      }
      expect(list.data.map(({ id }) => id).toSorted()).toEqual([MODEL, 'mirrored'])
      const refused = await gateway.chat({ model: 'far' }, as('bound'))
      expect(refused.status).toBe(404)
      expect(await refused.json()).toMatchObject({
        error: { code: 'model_not_found', message: expect.stringContaining('in no region that this key may use (eu)') },
      })
      expect((await gateway.chat({ model: 'far' }, as('free'))).status).toBe(200)
    })

    it('a bound key has no mirror traffic at a model that only other regions have', async () => {
      await (await gateway.chat({ model: 'mirrored' }, as('bound'))).text()
      const refused = /^firstlight_mirror_refused_total\{name="mirrored",target="far"\} 1$/m
      await until(async () => refused.test(await (await gateway.get('/metrics')).text()))
      expect(usPosts()).toBe(0)
      await (await gateway.chat({ model: 'mirrored' }, as('free'))).text()
      await until(() => usPosts() === 1)
    })

    it('a bound key is hedged within its region alone', async () => {
      const before = euPosts()
      const held = Promise.withResolvers<FakeAnswer>()
      answer = held.promise
      const sent = gateway.chat({ stream: true }, as('bound'))
      await until(() => euPosts() - before === 2)
      held.resolve(sseAnswer([token('hi'), DONE]))
      await (await sent).text()
      expect(usPosts()).toBe(0)
    })

    // On Node the keys need a file (issued-keys.ts has it).
    it.runIf(runtime === 'worker')('a bound key is made at run time with the same rules', async () => {
      const issue = (body: object) =>
        gateway.post('/v1/firstlight/keys', body, { headers: { authorization: `Bearer ${ADMIN_KEY}` } })
      const refused = await issue({ name: 'late', regions: ['ue'] })
      expect(refused.status).toBe(400)
      expect(await refused.text()).toContain('regions[0]: \\"ue\\": is the `region` of no cluster')
      const made = (await (await issue({ name: 'late', regions: ['eu'] })).json()) as { readonly key: string }
      expect(await chats(gateway, { headers: { authorization: `Bearer ${made.key}` } })).toEqual(new Set(['200 eu-1']))
    })

    it('a bound key leaves its region neither for a stream that breaks nor when every engine there fails', async () => {
      answer = BROKEN
      await (await gateway.chat({ stream: true }, as('bound'))).text().catch(() => '')
      answer = FAILED
      for (const status of await chats(gateway, as('bound'), 3)) expect(status).toMatch(/^50[234] /)
      expect(usPosts()).toBe(0)
      expect(await chats(gateway, as('free'), 2)).toEqual(new Set(['200 us-1']))
      for (const one of eu()) await one.close()
      for (const status of await chats(gateway, as('bound'), 3)) expect(status).toMatch(/^50[234] /)
      expect(usPosts()).toBe(2)
    })

    // A deployed Worker cannot change its configuration in a test.
    it.runIf(runtime === 'node')('a bound key does not read a response that another region stores', async () => {
      const [near, far] = [await engine({ 'POST *': STORED }), await engine({ 'POST *': STORED })]
      const cluster = (region: string, { url }: FakeEngine) => ({
        id: `${region}-1`,
        region,
        pools: [{ model: MODEL, engines: [{ id: `${region}0`, url }] }],
      })
      const clusters = [cluster('us', far), cluster('eu', near)]
      const own = await start({ clusters, keys: [{ name: 'bound', secret: 'secret-of-bound' }] })
      await until(async () => {
        const made = await own.post('/v1/responses', { model: MODEL, input: 'hi' }, as('bound'))
        await made.text()
        return made.headers.get('x-firstlight-cluster') === 'us-1'
      }, 1)
      await own.node.adopt(nodeConfig({ version: Date.now() + 1, keys: KEYS.slice(0, 1), clusters }))
      const before = far.requests.length
      const read = await fetch(`${own.url}/v1/responses/resp_1`, as('bound'))
      const body = { model: MODEL, input: 'and?', previous_response_id: 'resp_1' }
      const again = await own.post('/v1/responses', body, as('bound'))
      expect([read.status, again.status]).toEqual([404, 404])
      expect(await again.text()).toContain('is in a region that this key may not use')
      expect(far.requests.slice(before).filter(({ path }) => path.startsWith('/v1/responses'))).toEqual([])
    })

    it('a bound key takes its regions along through an edge to a region that could send it on', async () => {
      const own = await engine({ 'POST *': FAILED })
      const far = await engine({ 'GET *': { status: 403 }, 'POST *': ANSWER })
      const region = await start({
        clusters: [
          { id: 'here', pools: [{ model: MODEL, engines: [{ id: 'own', url: own.url }] }] },
          { id: 'there', region: 'us', gateway: { url: far.url, key: 'k', models: [{ model: MODEL }] } },
        ],
        keys: KEYS.filter(({ name }) => name === 'edge'),
      })
      const gatewayOf = { url: region.url, key: 'secret-of-edge', models: [{ model: MODEL }] }
      const edge = await start({ clusters: [{ id: 'paris', region: 'eu', gateway: gatewayOf }] })
      const refused = await edge.chat({}, as('bound'))
      expect([refused.status, far.posts.length]).toEqual([502, 0])
      expect((await edge.chat({}, as('free'))).status).toBe(200)
      expect(far.posts.length).toBe(1)
    })
  })
}
