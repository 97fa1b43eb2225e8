/** Effect of LMCache lookups on routing, on any runtime, with responses as recorded. */
import { afterEach, describe, expect, it } from 'vitest'
import { FakeController } from '../../packages/simulator/src/lmcache/controller.ts'
import { FakeCoordinator } from '../../packages/simulator/src/lmcache/coordinator.ts'
import type { Fleet } from '../../packages/simulator/src/fleet.ts'
import { until } from '../wait.ts'

export const lmcacheKeys = {
  plain: 'plain-secret-1',
  free: 'free-secret-22',
  salted: 'salted-secret-3',
  admin: 'admin-secret-44',
} as const

/** Settings of the pool under test; its engines are three of a simulated fleet. */
export type PoolDocument = Readonly<Record<string, unknown>>

/** A gateway, its fleet, and a service with the base URL `serviceUrl`. */
export interface LmcacheWorld {
  readonly fleet: Fleet
  send(path: string, init?: RequestInit): Promise<Response>
  /** Adopts a configuration with another pool, without some keys. Running and waiting requests go on. */
  reload(change: Reload): Promise<void>
  close(): Promise<void>
}

export interface Reload {
  readonly pool: PoolDocument
  /** Names of removed keys. */
  readonly without?: readonly string[]
}

export interface OpenLmcache {
  /** `service` answers all requests to the URL that `pool` gets. */
  (options: {
    service(request: Request): Promise<Response>
    pool(serviceUrl: string): PoolDocument
  }): Promise<LmcacheWorld>
}

/** The rest of a configuration around the pool. */
export function lmcacheDocument(
  pool: PoolDocument,
  engines: readonly Readonly<Record<string, unknown>>[],
): Record<string, unknown> {
  return {
    version: 1,
    keys: [
      { name: 'plain', secret: lmcacheKeys.plain },
      { name: 'free', secret: lmcacheKeys.free, allow_overrides: true },
      { name: 'salted', secret: lmcacheKeys.salted, cache_salt: 'pepper' },
    ],
    admin: { secret: lmcacheKeys.admin },
    log: { level: 'silent' },
    clusters: [
      {
        id: 'one',
        pools: [
          {
            model: 'sim',
            block_tokens: 16,
            engines: engines.map((engine, index) => ({ lmcache_instance: `node-${index}`, ...engine })),
            ...pool,
          },
        ],
      },
    ],
  }
}

/** The document after a reload. */
export function reloaded(document: Record<string, unknown>, { pool, without = [] }: Reload): Record<string, unknown> {
  const { version, keys, clusters } = document as {
    readonly version: number
    readonly keys: readonly { readonly name: string }[]
    readonly clusters: readonly { readonly pools: readonly Record<string, unknown>[] }[]
  }
  return {
    ...document,
    version: version + 1,
    keys: keys.filter(({ name }) => !without.includes(name)),
    clusters: clusters.map((cluster) => {
      const [{ model, block_tokens, observe_share, engines }] = cluster.pools as [Record<string, unknown>]
      return { ...cluster, pools: [{ model, block_tokens, observe_share, engines, ...pool }] }
    }),
  }
}

export const MODEL_PATH = 'models/tiny'
/** Long enough on a busy machine. Only tests of time limits have less. */
const AMPLE_MS = 10_000
const LOOKUP = '/directory/lookup'

const ids = (count: number, salt = 0): number[] =>
  Array.from({ length: count }, (_, at) => (at * 13 + salt * 101 + 7) % 5000)
const auth = (key: keyof typeof lmcacheKeys): Record<string, string> => ({
  authorization: `Bearer ${lmcacheKeys[key]}`,
  'content-type': 'application/json',
})

interface SeenDecision {
  readonly policy: string
  readonly fallback: { readonly from: string; readonly reason: string } | null
  readonly placement: { readonly engine: string }
  readonly candidates: readonly { readonly engine: string; readonly terms: Readonly<Record<string, number>> }[]
  readonly shadow: { readonly policy: string; readonly engine: string } | null
}

interface Answered {
  readonly status: number
  readonly engine: string | null
  readonly timing: string
  readonly decision: SeenDecision
}

export function lmcacheContract(runtime: string, open: OpenLmcache): void {
  let world: LmcacheWorld | null = null
  afterEach(async () => {
    await world?.close()
    world = null
  })

  async function complete(
    prompt: readonly number[] | string,
    more: object = {},
    headers: Record<string, string> = auth('free'),
  ): Promise<Answered> {
    const response = await world!.send('/v1/completions', {
      method: 'POST',
      headers,
      body: JSON.stringify({ model: 'sim', prompt, max_tokens: 2, ...more }),
    })
    await response.text()
    const id = response.headers.get('x-firstlight-decision')?.split(';')[0] ?? ''
    const decision = await world!.send(`/v1/firstlight/decisions/${id}`, { headers: auth('admin') })
    return {
      status: response.status,
      engine: response.headers.get('x-firstlight-engine'),
      timing: response.headers.get('server-timing') ?? '',
      decision: (await decision.json()) as SeenDecision,
    }
  }

  const withCoordinator = async (pool: PoolDocument = {}, lmcache: PoolDocument = {}): Promise<FakeCoordinator> => {
    const fake = new FakeCoordinator()
    world = await open({
      service: (request) => fake.fetch(request),
      pool: (url) => ({ policy: 'kv_aware', lmcache: { coordinator: url, budget_ms: AMPLE_MS, ...lmcache }, ...pool }),
    })
    return fake
  }

  describe(`lookups at a coordinator, on ${runtime}`, () => {
    it('lookups at a coordinator send a prompt to the engine with most of it, by the engines’ model path', async () => {
      const fake = await withCoordinator()
      const prompt = ids(1100)
      fake.store(MODEL_PATH, prompt.slice(0, 512), { instance: 'node-0' })
      fake.store(MODEL_PATH, prompt, { instance: 'node-2' })
      fake.store('sim', prompt, { instance: 'node-1' })
      const { status, engine, timing, decision } = await complete(prompt)
      expect(status).toBe(200)
      expect(engine).toBe('engine-2')
      expect(timing).toMatch(/lookup;dur=/)
      expect(decision).toMatchObject({ policy: 'kv_aware', fallback: null })
      expect(Object.fromEntries(decision.candidates.map((one) => [one.engine, one.terms['matched_tokens']]))).toEqual({
        'engine-0': 512,
        'engine-1': 0,
        'engine-2': 1024,
      })
    })

    it('lookups at a coordinator count a chunk only if every rank has it', async () => {
      const fake = await withCoordinator({}, { world_size: 2 })
      const prompt = ids(1000)
      fake.store(MODEL_PATH, prompt, { instance: 'node-1', worldSize: 2, ranks: [0] })
      fake.store(MODEL_PATH, prompt, { instance: 'node-2', worldSize: 2, ranks: [1] })
      fake.store(MODEL_PATH, prompt.slice(0, 256), { instance: 'node-0', worldSize: 2 })
      const { engine, decision } = await complete(prompt)
      expect(engine).toBe('engine-0')
      for (const id of ['engine-1', 'engine-2'])
        expect([id, decision.candidates.find((one) => one.engine === id)?.terms['matched_tokens']]).toEqual([id, 0])
    })

    it('lookups at a coordinator read the number of ranks off the directory', async () => {
      const fake = await withCoordinator()
      const prompt = ids(1000)
      fake.store(MODEL_PATH, prompt, { instance: 'node-1', worldSize: 4 })
      expect((await complete(prompt)).engine).toBe('engine-1')
    })

    it('lookups at a coordinator are not made for a prompt that is computed whole, whatever is cached', async () => {
      const fake = await withCoordinator()
      const prompt = ids(1100)
      fake.store(MODEL_PATH, prompt, { instance: 'node-1' })
      const { timing, decision } = await complete(prompt, { prompt_logprobs: 1 })
      expect(timing).not.toContain('lookup')
      expect(decision).toMatchObject({ policy: 'qps', fallback: { from: 'kv_aware' } })
      expect((await complete(prompt)).engine).toBe('engine-1')
    })

    it('lookups at a coordinator learn the size of chunks from the answers', async () => {
      const fake = new FakeCoordinator(64)
      world = await open({
        service: (request) => fake.fetch(request),
        pool: (url) => ({ policy: 'kv_aware', lmcache: { coordinator: url, budget_ms: AMPLE_MS } }),
      })
      const prompt = ids(640)
      fake.store(MODEL_PATH, prompt, { instance: 'node-1' })
      const { engine, decision } = await complete(prompt)
      expect(engine).toBe('engine-1')
      expect(decision.candidates.find((one) => one.engine === 'engine-1')?.terms['matched_tokens']).toBe(639)
    })

    it('lookups at a coordinator ignore instances and engines that are not of the pool', async () => {
      const fake = await withCoordinator()
      const prompt = ids(1100)
      fake.store(MODEL_PATH, prompt, { instance: 'a-stranger' })
      fake.store(MODEL_PATH, prompt.slice(0, 256), { instance: 'node-1' })
      const { status, engine } = await complete(prompt)
      expect([status, engine]).toEqual([200, 'engine-1'])
    })

    it('lookups at a coordinator give shared chunks to every engine, and its own chunks to an engine in addition', async () => {
      const fake = await withCoordinator()
      const prompt = ids(1100)
      fake.store(MODEL_PATH, prompt.slice(0, 512), { instance: '', tier: 'l2', shared: true })
      fake.store(MODEL_PATH, prompt.slice(0, 768), { instance: 'node-1' })
      const { decision } = await complete(prompt)
      expect(decision.candidates.map((one) => [one.engine, one.terms['matched_tokens']])).toEqual([
        ['engine-1', 768],
        [expect.any(String), 512],
        [expect.any(String), 512],
      ])
    })

    it('lookups at a coordinator count the best match for each engine of a shared cache', async () => {
      const fake = await withCoordinator({ policy: 'ttft' }, { shared: true })
      const prompt = ids(1100)
      fake.store(MODEL_PATH, prompt, { instance: 'node-1' })
      const { decision } = await complete(prompt)
      expect(decision.candidates.map((one) => one.terms['cached_tokens'])).toEqual([1024, 1024, 1024])
    })

    it('lookups at a coordinator include the key’s salt, so that tenants see only their own chunks', async () => {
      const fake = await withCoordinator()
      const prompt = ids(1100)
      fake.store(MODEL_PATH, prompt, { instance: 'node-0' })
      fake.store(MODEL_PATH, prompt, { instance: 'node-2', salt: 'pepper' })
      expect((await complete(prompt, {}, auth('salted'))).engine).toBe('engine-2')
      expect((await complete(prompt)).engine).toBe('engine-0')
    })

    it('use token ids of an engine if the pool has no vocabulary', async () => {
      const fake = await withCoordinator()
      const prompt = 'The quick brown fox jumps over the lazy dog. '.repeat(60)
      const tokenized = await world!.send('/tokenize', {
        method: 'POST',
        headers: auth('free'),
        body: JSON.stringify({ model: 'sim', prompt }),
      })
      const { tokens } = (await tokenized.json()) as { tokens: number[] }
      expect(tokens.length).toBeGreaterThan(512)
      fake.store(MODEL_PATH, tokens, { instance: 'node-1' })
      const { engine, decision } = await complete(prompt)
      expect([engine, (decision as unknown as { token_source: string }).token_source]).toEqual(['engine-1', 'engine'])
    })

    it('lookups at a coordinator are counted by reason if they are skipped', async () => {
      await withCoordinator({ adapters: ['tuned'] })
      await complete(ids(1100), { model: 'tuned' })
      await complete([ids(300), ids(300, 1)] as unknown as number[])
      await complete(['a', 'b', 'c', 'd', 'e'] as unknown as number[])
      const text = await (await world!.send('/metrics', { headers: auth('admin') })).text()
      expect(text).toContain('firstlight_lmcache_lookups_skipped_total{reason="unsupported"} 2\n')
      expect(text).toContain('firstlight_lmcache_lookups_skipped_total{reason="tokenize_failed"} 1\n')
    })

    it('lookups at a coordinator are made once for an unknown prompt, and not repeated at once', async () => {
      const fake = await withCoordinator()
      const prompt = ids(1100)
      expect((await complete(prompt)).decision).toMatchObject({ policy: 'qps', fallback: { from: 'kv_aware' } })
      await complete([...prompt, 1, 2, 3])
      expect(fake.count(LOOKUP)).toBe(1)
    })

    it('lookups at a coordinator are shared by concurrent equal prompts', async () => {
      const fake = await withCoordinator()
      const prompt = ids(1100)
      await complete(ids(300, 5))
      fake.store(MODEL_PATH, prompt, { instance: 'node-1' })
      let go = (): void => {}
      const gate = new Promise<void>((resolve) => (go = resolve))
      fake.instead = async (request) => (request.url.endsWith(LOOKUP) ? gate.then(() => null) : null)
      const before = fake.count(LOOKUP)
      const answers = [complete(prompt), complete(prompt), complete(prompt)]
      await expect.poll(() => fake.count(LOOKUP)).toBe(before + 1)
      // The other two have arrived when a later request has been served.
      await complete(ids(20, 9))
      go()
      expect((await Promise.all(answers)).map(({ engine }) => engine)).toEqual(['engine-1', 'engine-1', 'engine-1'])
      expect(fake.count(LOOKUP)).toBe(before + 1)
    })

    it('lookups at a coordinator are not made for a policy that does not read them', async () => {
      const fake = await withCoordinator({ policy: 'round_robin' })
      const { timing } = await complete(ids(1100))
      expect(timing).not.toMatch(/lookup/)
      expect([...fake.requests]).toEqual([])
    })

    it('lookups at a coordinator are made for the shadow’s sake', async () => {
      const fake = await withCoordinator({ policy: 'round_robin', shadow: 'kv_aware' })
      const prompt = ids(1100)
      fake.store(MODEL_PATH, prompt, { instance: 'node-2' })
      expect((await complete(prompt)).decision).toMatchObject({
        policy: 'round_robin',
        shadow: { policy: 'kv_aware', engine: 'engine-2' },
      })
    })

    it('lookups at a coordinator are made for the policy that a request selects, in its body or its header', async () => {
      const fake = await withCoordinator({ policy: 'round_robin' })
      const prompt = ids(1100)
      fake.store(MODEL_PATH, prompt, { instance: 'node-2' })
      const byBody = await complete(prompt, { firstlight: { policy: 'kv_aware' } })
      const byHeader = await complete(prompt, {}, { ...auth('free'), 'x-firstlight-options': '{"policy":"kv_aware"}' })
      for (const { engine, decision } of [byBody, byHeader])
        expect([engine, decision.policy]).toEqual(['engine-2', 'kv_aware'])
      const refused = await complete(prompt, { firstlight: { policy: 'kv_aware' } }, auth('plain'))
      expect(refused.status).toBe(403)
    })

    it('lookups at a coordinator are part of a dry run', async () => {
      const fake = await withCoordinator()
      const prompt = ids(1100)
      fake.store(MODEL_PATH, prompt, { instance: 'node-1' })
      const dry = await world!.send('/v1/firstlight/route?endpoint=/v1/completions', {
        method: 'POST',
        headers: auth('admin'),
        body: JSON.stringify({ model: 'sim', prompt }),
      })
      expect(await dry.json()).toMatchObject({
        decision: { policy: 'kv_aware', placement: { engine: 'engine-1' } },
        refusals: [],
      })
      expect(world!.fleet.engines.map(({ log }) => log.inference)).toEqual([0, 0, 0])
    })
  })

  describe(`lookups that fail, on ${runtime}`, () => {
    const garbage: readonly (readonly [string, () => Response | Promise<Response>])[] = [
      ['a status of 500', () => Response.json({ detail: 'no' }, { status: 500 })],
      ['what is no JSON', () => new Response('<html>')],
      ['JSON of another shape', () => Response.json({ chunks: 'many', results: 3 })],
      ['more chunks than tokens', () => Response.json({ chunks: 1e9, results: [] })],
      ['fewer rows than chunks', () => Response.json({ chunks: 4, results: [] })],
      ['an answer without end', () => new Response(new Uint8Array(9 * 1024 * 1024))],
    ]

    it.each(garbage)('lookups that fail leave the choice to the fallbacks: %s', async (_, answer) => {
      const fake = await withCoordinator()
      fake.instead = (request) => (request.url.endsWith(LOOKUP) ? answer() : null)
      const { status, decision } = await complete(ids(1100))
      expect(status).toBe(200)
      expect(decision).toMatchObject({
        policy: 'qps',
        fallback: { from: 'kv_aware', reason: expect.stringContaining('no LMCache lookup') },
      })
    })

    it.each(['kv_aware', { name: 'ttft', cache: 'lookup' }])(
      'lookups that fail leave a session’s request to its session: %s',
      async (policy) => {
        const fake = await withCoordinator({ policy })
        fake.instead = () => Response.json({ detail: 'no' }, { status: 500 })
        const { decision } = await complete(ids(1100), { user: 'someone' })
        expect(decision).toMatchObject({
          policy: 'session',
          fallback: { from: typeof policy === 'string' ? policy : policy.name },
        })
      },
    )

    it('lookups that fail end at the deadline if the service hangs, and are skipped after several of these', async () => {
      const fake = await withCoordinator({}, { budget_ms: 25 })
      fake.instead = (request) => (request.url.endsWith(LOOKUP) ? new Promise(() => {}) : null)
      let sent = 0
      const hasSkipped = async () => {
        const { status, decision } = await complete(ids(1100, sent++))
        expect([status, decision.fallback?.from]).toEqual([200, 'kv_aware'])
        const metrics = await (await world!.send('/metrics', { headers: auth('admin') })).text()
        return /^firstlight_lmcache_lookups_skipped_total\{[^}]*reason="circuit_open"[^}]*\} [1-9]/m.test(metrics)
      }
      await until(hasSkipped)
      expect(sent).toBeGreaterThan(2)
    })
  })

  describe(`lookups at a legacy controller, on ${runtime}`, () => {
    const withController = async (): Promise<FakeController> => {
      const fake = new FakeController()
      world = await open({
        service: (request) => fake.fetch(request),
        pool: (url) => ({ policy: 'kv_aware', lmcache: { controller: url, budget_ms: AMPLE_MS } }),
      })
      return fake
    }

    it('lookups at a legacy controller use every holder of the response', async () => {
      const fake = await withController()
      const prompt = ids(600)
      fake.holds.set('node-0', { tokens: prompt.slice(0, 300), location: 'LocalCPUBackend' })
      fake.holds.set('node-1', { tokens: prompt, location: 'LocalDiskBackend' })
      const { engine, decision } = await complete(prompt)
      expect(engine).toBe('engine-1')
      expect(decision.candidates.find((one) => one.engine === 'engine-0')?.terms['matched_tokens']).toBe(300)
    })

    it('lookups at a legacy controller limit counts to the length of the prompt', async () => {
      const fake = await withController()
      fake.instead = (request) =>
        request.url.endsWith('/lookup')
          ? Response.json({ event_id: 'x', layout_info: { 'node-1': ['LocalCPUBackend', 100_000] } })
          : null
      const { engine, decision } = await complete(ids(600))
      expect(engine).toBe('engine-1')
      expect(decision.candidates[0]!.terms['matched_tokens']).toBe(599)
    })
  })
}
