/** Status of clusters behind other gateways: the fleet view, the live view, the metrics. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Pool, View } from '../../../src/dashboard/wire.ts'
import { startFleet, type RunningFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { parseExposition } from '../../telemetry/parse-exposition.ts'
import { startBuiltWorker } from '../../kit/built-worker.ts'
import { startNodeGateway, type NodeGateway } from '../../kit/node-gateway.ts'
import { until } from '../../wait.ts'

const DIGEST_MS = 100
const engineKeys = (pool: Pool) => Object.keys(pool.engines[0]!)

let fleet: RunningFleet
let paris: NodeGateway
let edge: NodeGateway

const chat = async (url: string) => {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'sim',
      max_tokens: 2,
      messages: [{ role: 'user', content: 'What is known of Paris?' }],
    }),
  })
  await response.text()
  return response.status
}
const fleetOf = async (): Promise<readonly Pool[]> =>
  ((await (await fetch(`${edge.url}/v1/firstlight/fleet`)).json()) as { pools: Pool[] }).pools
const metrics = async () => parseExposition(await (await fetch(`${edge.url}/metrics`)).text())

/** The first view of the live feed. */
async function view(): Promise<View> {
  const leaves = new AbortController()
  const feed = (await fetch(`${edge.url}/v1/firstlight/live`, { signal: leaves.signal })).body!
  let text = ''
  for await (const part of feed.pipeThrough(new TextDecoderStream())) if ((text += part).includes('\n\n')) break
  leaves.abort()
  return JSON.parse(/^data: (.*)$/m.exec(text)![1]!) as View
}

beforeAll(async () => {
  fleet = await startFleet({ engines: 3, model: 'sim', profile: 'instant' })
  paris = await startNodeGateway({
    clusters: [
      { id: 'here', pools: [{ model: 'sim', engines: fleet.urls.map((url, at) => ({ id: `e${at}`, url })) }] },
    ],
  })
  edge = await startNodeGateway({
    clusters: [
      { id: 'paris', gateway: { url: paris.url, digest_interval_ms: DIGEST_MS, models: [{ model: 'sim' }] } },
      {
        id: 'gone',
        gateway: {
          url: 'http://127.0.0.1:9',
          digest_interval_ms: DIGEST_MS,
          models: [{ model: 'sim', block_tokens: 32 }],
        },
      },
      {
        id: 'coarse',
        gateway: {
          url: `${paris.url}/`,
          digest_interval_ms: DIGEST_MS,
          models: [{ model: 'sim', block_tokens: 128 }],
        },
      },
      { id: 'own', pools: [{ model: 'other', engines: [{ id: 'a', url: fleet.urls[0] }] }] },
    ],
  })
})
afterAll(async () => {
  await edge.close()
  await paris.close()
  await fleet.close()
})

describe('a cluster behind another gateway', () => {
  it('a cluster behind another gateway is in the fleet with its engines, load and distance', async () => {
    const [seen, gone, coarse, own] = await until(async () => {
      const pools = await fleetOf()
      return pools[0]!.gateway?.engines === 3 && pools[2]!.gateway ? pools : null
    })
    expect(seen!.gateway).toMatchObject({ reachable: true, blocking_match: true, engines: 3, requests: 0, queued: 0 })
    expect(seen!.gateway!.rtt_ms).toBeGreaterThanOrEqual(0)
    expect(seen!.gateway!.age_ms).toBeLessThan(5_000)
    expect(seen!.gateway!.expected_ttft_ms).toBeGreaterThan(0)
    expect(coarse!.gateway!.blocking_match).toBe(false)
    expect(gone!.gateway).toBeNull()
    expect(own!).not.toHaveProperty('gateway')
    expect(engineKeys(own!)).toContain('queued_prefill_s')
  })

  it('a cluster behind another gateway has the requests sent there, and no queue, cache or speed of an engine', async () => {
    const served = async () => (await fleetOf())[0]!.engines[0]!.requests_total! > 0
    await until(async () => (await chat(edge.url)) === 200 && served())
    const [seen] = await fleetOf()
    expect(seen!.engines).toMatchObject([{ id: 'paris', available: true, requests: 0, failures_total: 0 }])
    for (const key of [
      'queued_prefill_s',
      'queued_prefill_tokens',
      'active_blocks',
      'cached_blocks',
      'cache_blocks',
      'learned',
      'stats',
    ])
      expect(engineKeys(seen!)).not.toContain(key)
  })

  it('a cluster behind another gateway is the same in the live view', async () => {
    const { pools } = await until(async () => {
      const one = await view()
      return one.pools[0]!.gateway?.reachable === true ? one : null
    })
    expect(pools[0]!.gateway).toMatchObject({ engines: 3 })
    expect(engineKeys(pools[0]!)).not.toContain('cached_blocks')
    expect(pools[1]!.gateway).toBeNull()
    expect(pools[3]!).not.toHaveProperty('gateway')
  })

  it('a cluster behind another gateway has metrics of its own, without samples of unknown values', async () => {
    const read = await metrics()
    const of = (name: string) => read.get(name)?.samples.map(({ labels, value }) => [labels['cluster'], value])
    expect(of('firstlight_region_engines')).toEqual([
      ['paris', 3],
      ['coarse', 3],
    ])
    expect(of('firstlight_region_blocking_match')).toEqual([
      ['paris', 1],
      ['coarse', 0],
    ])
    for (const name of [
      'requests',
      'queued_prompts',
      'expected_time_to_first_token_seconds',
      'rtt_seconds',
      'digest_age_seconds',
      'reachable',
    ])
      expect(of(`firstlight_region_${name}`)).toHaveLength(2)
    expect(of('firstlight_engine_available')!.map(([cluster]) => cluster)).toEqual(['paris', 'gone', 'coarse', 'own'])
    for (const name of ['pending_prefill_seconds', 'cached_blocks', 'active_blocks', 'silent_miss'])
      expect(of(`firstlight_engine_${name}`)?.map(([cluster]) => cluster)).toEqual(['own'])
  })

  it('a cluster behind another gateway is also in the fleet of a Worker, which can drain it', async () => {
    const bearer = { authorization: 'Bearer a' }
    const document = {
      open: true,
      admin: { secret: 'a' },
      log: { level: 'silent' },
      clusters: [{ id: 'paris', gateway: { url: paris.url, models: [{ model: 'sim' }] } }],
    }
    const worker = await startBuiltWorker(document)
    try {
      const { pools } = (await (await fetch(`${worker.url}/v1/firstlight/fleet`, { headers: bearer })).json()) as {
        pools: Pool[]
      }
      expect(pools[0]!.gateway).toMatchObject({ reachable: true, blocking_match: true, engines: 3 })
      expect(engineKeys(pools[0]!)).not.toContain('cached_blocks')
      const drained = await fetch(`${worker.url}/v1/firstlight/engines/paris/drain`, {
        method: 'POST',
        headers: bearer,
      })
      expect(drained.status).toBe(200)
      const after = (await (await fetch(`${worker.url}/v1/firstlight/fleet`, { headers: bearer })).json()) as {
        pools: { engines: { draining: boolean }[] }[]
      }
      expect(after.pools[0]!.engines[0]!.draining).toBe(true)
      // A view does not wait over a second for a region on a busy machine.
      const isReachable = /^firstlight_region_reachable\{.*cluster="paris"\} 1$/m
      await until(async () =>
        isReachable.test(await (await fetch(`${worker.url}/metrics`, { headers: bearer })).text()),
      )
    } finally {
      await worker.close()
    }
  })

  it('a cluster behind another gateway has the age of its last digest once it is gone', async () => {
    await paris.close()
    await until(async () => (await fleetOf())[0]!.gateway?.reachable === false)
    const ageMs = async () => (await fleetOf())[0]!.gateway!.age_ms
    const before = await ageMs()
    await until(async () => (await ageMs()) > before)
    expect((await metrics()).get('firstlight_region_reachable')!.samples[0]!.value).toBe(0)
  })
})
