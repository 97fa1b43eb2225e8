/** The gateway as the registry of LMCache servers, on any runtime. Bodies are those of 0.5.6. */
import { afterEach, describe, expect, it } from 'vitest'
import { chunkHashes, hashHex } from '../../src/core/lmcache/chunk-hashes.ts'
import { rankOf } from '../../packages/simulator/src/lmcache/coordinator.ts'
import { lmcacheKeys, MODEL_PATH, type LmcacheWorld, type OpenLmcache, type PoolDocument } from './lmcache.ts'

const TOKEN = 'server-token-5'
const BASE = '/lmcache/one'
const ids = (count: number, salt = 0): number[] =>
  Array.from({ length: count }, (_, at) => (at * 17 + salt * 301 + 3) % 5000)
const admin = { authorization: `Bearer ${lmcacheKeys.admin}` }
const client = { authorization: `Bearer ${lmcacheKeys.free}` }

interface BatchOptions {
  readonly instance?: string
  readonly incarnation?: number
  readonly seq?: number
  readonly kind?: 'store' | 'delete' | 'access' | 'config'
  readonly tier?: 'l1' | 'l2'
  readonly shared?: boolean
  readonly tokens?: readonly number[]
  readonly salt?: string
  readonly model?: string
  readonly worldSize?: number
}

/** One batch as a server with the defaults of 0.5.6 reports it. */
function batch({
  instance = 'node-1',
  incarnation = 1_795_258_323,
  seq = 1,
  kind = 'store',
  tier = 'l1',
  shared = false,
  tokens = [],
  salt = '',
  model = MODEL_PATH,
  worldSize = 1,
}: BatchOptions) {
  const hashes = chunkHashes(tokens, 256)
  const entries = Array.from({ length: (hashes.length / 8) * worldSize }, (_, row) => ({
    key: {
      chunk_hash_hex: hashHex(hashes, Math.floor(row / worldSize)),
      model_name: model,
      kv_rank: rankOf(worldSize, row % worldSize),
      object_group_id: 0,
      cache_salt: salt,
    },
    size_bytes: kind === 'store' ? 262_144 : 0,
    token_ids: [],
    token_offset: -1,
  }))
  return {
    instance_id: instance,
    incarnation,
    seq,
    event_type: kind,
    tier,
    backend: kind === 'access' ? '' : tier === 'l1' ? 'dram' : 'fs',
    entries,
    shared,
    ts: 0,
    capacity_bytes: 0,
    capacity_revision: 0,
  }
}

export function lmcacheRegistryContract(runtime: string, open: OpenLmcache): void {
  let world: LmcacheWorld | null = null
  afterEach(async () => {
    await world?.close()
    world = null
  })

  const start = async (pool: PoolDocument = {}, lmcache: PoolDocument = {}): Promise<void> => {
    world = await open({
      service: async () => new Response('nobody is asked', { status: 500 }),
      pool: () => ({ policy: 'kv_aware', lmcache: { registry: true, budget_ms: 10_000, ...lmcache }, ...pool }),
    })
  }

  async function tell(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = admin,
  ): Promise<{ readonly status: number; readonly json: unknown }> {
    const response = await world!.send(path, {
      method,
      headers: { ...headers, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, json: text === '' ? null : JSON.parse(text) }
  }

  const report = async (...batches: BatchOptions[]) =>
    (await tell('POST', `${BASE}/events`, { batches: batches.map(batch) })).json

  async function chosen(
    prompt: readonly number[],
    more: object = {},
  ): Promise<{
    readonly engine: string | null
    readonly policy: string | null
    readonly matched: Readonly<Record<string, number>>
  }> {
    const response = await world!.send('/v1/completions', {
      method: 'POST',
      headers: { ...client, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'sim', prompt, max_tokens: 2, ...more }),
    })
    await response.text()
    const id = response.headers.get('x-firstlight-decision')?.split(';')[0] ?? ''
    const { json } = await tell('GET', `/v1/firstlight/decisions/${id}`)
    const { candidates } = json as { candidates: { engine: string; terms: Record<string, number> }[] }
    return {
      engine: response.headers.get('x-firstlight-engine'),
      policy: response.headers.get('x-firstlight-policy'),
      matched: Object.fromEntries(candidates.map((one) => [one.engine, one.terms['matched_tokens'] ?? 0])),
    }
  }

  describe(`LMCache's registry, on ${runtime}`, () => {
    it("LMCache's registry routes a prompt to its stored chunks without a lookup", async () => {
      await start()
      const prompt = ids(1100)
      expect(
        await report({ instance: 'node-0', tokens: prompt.slice(0, 512) }, { instance: 'node-2', tokens: prompt }),
      ).toEqual({ applied: 2, duplicates: 0, stale: 0 })
      expect(await chosen(prompt)).toMatchObject({
        engine: 'engine-2',
        policy: 'kv_aware',
        matched: { 'engine-0': 512, 'engine-1': 0, 'engine-2': 1024 },
      })
    })

    it("LMCache's registry uses the fallback policy before the first report", async () => {
      await start()
      expect(await chosen(ids(1100))).toMatchObject({ policy: 'qps' })
    })

    it("LMCache's registry removes deleted chunks", async () => {
      await start()
      const prompt = ids(1100)
      await report({ tokens: prompt }, { kind: 'delete', seq: 2, tokens: prompt.slice(0, 256) })
      expect(await chosen(prompt)).toMatchObject({ policy: 'qps' })
    })

    it("LMCache's registry applies a batch once, and ignores a previous incarnation", async () => {
      await start()
      const prompt = ids(600)
      expect(await report({ tokens: prompt, seq: 3, incarnation: 20 })).toEqual({ applied: 1, duplicates: 0, stale: 0 })
      expect(
        await report(
          { tokens: prompt, seq: 3, incarnation: 20 },
          { kind: 'delete', tokens: prompt, seq: 2, incarnation: 20 },
          { kind: 'delete', tokens: prompt, seq: 9, incarnation: 10 },
        ),
      ).toEqual({ applied: 0, duplicates: 2, stale: 1 })
      expect((await chosen(prompt)).engine).toBe('engine-1')
    })

    it("LMCache's registry discards the memory tier of a restarted server, and keeps its disk tier", async () => {
      await start()
      const [lost, kept] = [ids(600, 1), ids(600, 2)]
      await report({ tokens: lost, seq: 1, incarnation: 1 }, { tokens: kept, tier: 'l2', seq: 2, incarnation: 1 })
      await report({ kind: 'config', seq: 1, incarnation: 2 })
      expect(await chosen(lost)).toMatchObject({ policy: 'qps' })
      expect(await chosen(kept)).toMatchObject({ engine: 'engine-1', policy: 'kv_aware' })
    })

    it("LMCache's registry learns a chunk from an access without a store event", async () => {
      await start()
      const prompt = ids(600)
      await report({ kind: 'access', tokens: prompt, instance: 'node-2' })
      expect((await chosen(prompt)).engine).toBe('engine-2')
    })

    it("LMCache's registry keeps models, salts and ranks apart", async () => {
      await start()
      const [other, salted, halves] = [ids(600, 1), ids(600, 2), ids(600, 3)]
      await report({ tokens: other, model: 'another/model' }, { seq: 2, tokens: salted, salt: 'pepper' })
      expect((await chosen(other)).policy).toBe('qps')
      expect((await chosen(salted)).policy).toBe('qps')
      expect((await chosen(salted, { cache_salt: 'pepper' })).engine).toBe('engine-1')
      const { batches } = { batches: [batch({ instance: 'node-2', tokens: halves, worldSize: 2 })] }
      const firstRanks = { ...batches[0]!, entries: batches[0]!.entries.filter((_, at) => at % 2 === 0) }
      await tell('POST', `${BASE}/events`, { batches: [firstRanks] })
      expect((await chosen(halves)).policy).toBe('qps')
      await tell('POST', `${BASE}/events`, { batches: [{ ...batches[0]!, seq: 2 }] })
      expect((await chosen(halves)).engine).toBe('engine-2')
    })

    it("LMCache's registry registers, receives heartbeats, lists and deregisters, as the coordinator does", async () => {
      await start()
      expect(await tell('PUT', `${BASE}/instances/node-1/heartbeat`)).toEqual({
        status: 404,
        json: { error: 'unknown instance node-1; re-register' },
      })
      const self = {
        instance_id: 'node-1',
        ip: '10.1.2.3',
        http_port: 8080,
        metadata: { rack: '7' },
        p2p_advertised_url: '',
        mq_port: 0,
      }
      expect(await tell('POST', `${BASE}/instances`, self)).toEqual({
        status: 200,
        json: { instance_id: 'node-1', re_registered: false },
      })
      expect(await tell('POST', `${BASE}/instances`, self)).toEqual({
        status: 200,
        json: { instance_id: 'node-1', re_registered: true },
      })
      expect(await tell('PUT', `${BASE}/instances/node-1/heartbeat`)).toEqual({
        status: 200,
        json: { instance_id: 'node-1' },
      })
      expect(await tell('GET', `${BASE}/instances`)).toMatchObject({
        status: 200,
        json: { instances: [{ ...self, registration_time: expect.any(Number) }] },
      })
      await report({ tokens: ids(600) })
      expect((await chosen(ids(600))).engine).toBe('engine-1')
      expect(await tell('DELETE', `${BASE}/instances/node-1`)).toEqual({ status: 204, json: null })
      expect(await tell('GET', `${BASE}/instances`)).toMatchObject({ json: { instances: [] } })
      expect((await chosen(ids(600))).policy).toBe('qps')
      expect(await tell('GET', `${BASE}/healthz`)).toEqual({ status: 200, json: { status: 'healthy' } })
    })

    it("LMCache's registry generates an id for a server without one", async () => {
      await start()
      expect(await tell('POST', `${BASE}/instances`, { ip: '10.1.2.3', http_port: 8080 })).toMatchObject({
        status: 200,
        json: { instance_id: expect.stringMatching(/^mp-.+/), re_registered: false },
      })
    })

    it("LMCache's registry answers lookups in the coordinator’s shape, by tokens and by keys", async () => {
      await start()
      const prompt = ids(600)
      await report({ tokens: prompt.slice(0, 256) })
      const { json } = await tell('POST', `${BASE}/directory/lookup`, {
        token_ids: prompt,
        model_name: MODEL_PATH,
        world_size: 1,
        cache_salt: '',
      })
      const { chunks, results } = json as {
        chunks: number
        results: { key: { chunk_hash_hex: string }; placements: unknown[] }[]
      }
      expect([chunks, results.length]).toEqual([2, 2])
      expect(results[0]).toMatchObject({
        key: {
          chunk_hash_hex: hashHex(chunkHashes(prompt, 256), 0),
          model_name: MODEL_PATH,
          kv_rank: 16_777_472,
          object_group_id: 0,
          cache_salt: '',
        },
        placements: [{ instance_id: 'node-1', incarnation: 1_795_258_323, tier: 'l1', backend: 'dram', shared: false }],
      })
      expect(results[1]!.placements).toEqual([])
      expect((await tell('POST', `${BASE}/directory/lookup`, { keys: [results[0]!.key] })).json).toMatchObject({
        chunks: 1,
        results: [{ placements: [{ instance_id: 'node-1' }] }],
      })
      expect((await tell('POST', `${BASE}/directory/lookup`, {})).status).toBe(422)
    })

    it("LMCache's registry rejects a lookup of too many keys before it computes them", async () => {
      await start({}, { chunk_tokens: 1 })
      const many = { token_ids: ids(1000), model_name: MODEL_PATH, world_size: 101 }
      expect(await tell('POST', `${BASE}/directory/lookup`, many)).toMatchObject({
        status: 422,
        json: { detail: [{ msg: expect.stringContaining('100000') }] },
      })
      expect(await tell('POST', `${BASE}/directory/lookup`, { ...many, world_size: 2 })).toMatchObject({
        status: 200,
        json: { chunks: 1000 },
      })
    })

    it("LMCache's registry rejects an invalid event with 422, and applies nothing of it", async () => {
      await start()
      const bad = { batches: [batch({ tokens: ids(600) }), { ...batch({ seq: 2 }), tier: 'all' }] }
      expect(await tell('POST', `${BASE}/events`, bad)).toMatchObject({
        status: 422,
        json: { detail: [{ loc: ['body', 'batches', 1, 'tier'] }] },
      })
      expect((await chosen(ids(600))).policy).toBe('qps')
    })

    it("LMCache's registry ignores chunks of unknown engines", async () => {
      await start()
      await report({ tokens: ids(600), instance: 'a-stranger' })
      expect(await chosen(ids(600))).toMatchObject({ policy: 'qps', matched: {} })
    })

    it("LMCache's registry adds the shared store to every engine", async () => {
      await start({ policy: { name: 'ttft', cache: 'lookup' } })
      await report({ tokens: ids(600), tier: 'l2', shared: true })
      const { json } = await tell('POST', '/v1/firstlight/route?endpoint=/v1/completions', {
        model: 'sim',
        prompt: ids(600),
      })
      const { decision } = json as { decision: { policy: string; candidates: { terms: { cached_tokens: number } }[] } }
      expect([decision.policy, ...decision.candidates.map(({ terms }) => terms.cached_tokens)]).toEqual([
        'ttft',
        512,
        512,
        512,
      ])
    })
  })

  describe(`authorisation of reports, on ${runtime}`, () => {
    it('an LMCache registry accepts the admin key if no token is configured', async () => {
      await start()
      expect((await tell('GET', `${BASE}/instances`, undefined, {})).status).toBe(401)
      expect((await tell('GET', `${BASE}/instances`, undefined, client)).status).toBe(401)
      expect((await tell('GET', `${BASE}/instances`)).status).toBe(200)
    })

    it('an LMCache registry accepts the token in the path or as a bearer', async () => {
      await start({}, { token: TOKEN })
      expect((await tell('GET', `${BASE}/${TOKEN}/instances`, undefined, {})).status).toBe(200)
      expect((await tell('GET', `${BASE}/instances`, undefined, { authorization: `Bearer ${TOKEN}` })).status).toBe(200)
      expect((await tell('GET', `${BASE}/instances`)).status).toBe(200)
      for (const path of [`${BASE}/not-the-token/instances`, `${BASE}/instances`])
        expect((await tell('GET', path, undefined, {})).status).toBe(401)
    })

    it('an LMCache registry ignores clusters without a registry', async () => {
      await start()
      expect((await tell('GET', '/lmcache/elsewhere/instances')).status).toBe(404)
      expect((await tell('GET', `${BASE}/quota`)).status).toBe(404)
      expect((await tell('POST', `${BASE}/healthz`)).status).toBe(404)
    })
  })
}
