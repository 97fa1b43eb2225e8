/**
 * Two gateways with their own engines, each a region of the other: requests overflow to the other one and never return.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { parseConfig } from '../../../src/config/parse.ts'
import { readRegionDigestResponse } from '../../../src/origin/regions/region-digest-response.ts'
import { startFleet, type RunningFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { startNodeGateway, type NodeGateway } from '../../kit/node-gateway.ts'
import { until } from '../../wait.ts'

const KEY = 'a-key-of-the-other-1'
const ADMIN = 'an-admin-key-2'
const DIGEST_MS = 100
const NAMES = ['paris', 'tokyo'] as const
type Name = (typeof NAMES)[number]
const other = (name: Name): Name => (name === 'paris' ? 'tokyo' : 'paris')

const fleets = {} as Record<Name, RunningFleet>
const gateways = {} as Record<Name, NodeGateway>

const own = (name: Name) => ({
  id: name,
  pools: [
    { model: 'sim', engines: fleets[name].urls.map((url, at) => ({ id: `${name}-${at}`, url, max_in_flight: 2 })) },
  ],
})
const document = (name: Name, more: readonly object[]) => ({
  keys: [{ name: 'all', secret: KEY, edge: true, allow_overrides: true }],
  admin: { secret: ADMIN },
  clusters: [own(name), ...more],
})

const ask = (name: Name, path: string, body?: object, key = KEY) =>
  fetch(gateways[name].url + path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
const digestOf = async (name: Name) =>
  readRegionDigestResponse(await (await ask(name, '/v1/firstlight/digest?model=sim')).json())!
/** Longer than the test: 20 s at 100 tokens/s. */
const chat = (content: string) => ({
  model: 'sim',
  max_tokens: 2_000,
  stream: true,
  messages: [{ role: 'user', content }],
})
/** Age of its digest of the other gateway, ms. */
const ageMs = async (name: Name): Promise<number> => {
  const { pools } = (await (await ask(name, '/v1/firstlight/fleet', undefined, ADMIN)).json()) as {
    pools: { gateway?: { age_ms: number } | null }[]
  }
  return pools.find(({ gateway }) => gateway)!.gateway!.age_ms
}

beforeAll(async () => {
  for (const name of NAMES) {
    fleets[name] = await startFleet({ engines: 1, model: 'sim', profile: 'demo' })
    gateways[name] = await startNodeGateway(document(name, []))
  }
  for (const name of NAMES) {
    const behind = {
      id: other(name),
      gateway: { url: gateways[other(name)].url, key: KEY, digest_interval_ms: DIGEST_MS, models: [{ model: 'sim' }] },
    }
    await gateways[name].adopt(
      parseConfig(
        { ...document(name, [behind]), version: 2, listen: '127.0.0.1:0' },
        {},
        { defaultVersion: 1, defaultObserveShare: 1, listens: true },
      ),
    )
  }
})

afterAll(async () => {
  for (const name of NAMES) {
    await gateways[name].close()
    await fleets[name].close()
  }
})

it('two gateways that are regions of each other count each engine once, however often they query each other', async () => {
  await until(async () => (await digestOf('paris')).regionDigests.length === 2)
  for (let i = 0; i < 10; i++) {
    // Until it has queried the other one again.
    const age = await until(() => ageMs('paris'))
    await until(async () => (await ageMs('paris')) < age)
    expect((await digestOf('paris')).regionDigests.map(({ cluster, engines }) => [cluster, engines])).toEqual([
      ['paris', 1],
      ['tokyo', 1],
    ])
  }
  expect((await digestOf('tokyo')).regionDigests.map(({ via }) => via!.length)).toEqual([1, 2])
})

it('two gateways that are regions of each other serve the overflow of each other, and refuse when both are full', async () => {
  const answers = []
  for (let i = 0; i < 4; i++) answers.push(await ask('paris', '/v1/chat/completions', chat(`What is known of ${i}?`)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
  expect(answers.map(({ headers }) => headers.get('x-firstlight-engine')).toSorted()).toEqual([
    'paris-0',
    'paris-0',
    'tokyo-0',
    'tokyo-0',
  ])
  const refused = await ask('paris', '/v1/chat/completions', chat('And of all this?'))
  expect([refused.status, ((await refused.json()) as { error: { code: string } }).error.code]).toEqual([
    429,
    'engines_full',
  ])
  for (const { body } of answers) await body!.cancel()
  await until(async () => {
    const { status, body } = await ask('paris', '/v1/chat/completions', chat('And now?'))
    await body!.cancel()
    return status === 200
  })
})
