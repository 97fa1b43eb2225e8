/** Overrides in a request's body or header, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import { lmcacheKeys, type LmcacheWorld, type OpenLmcache, type PoolDocument } from './lmcache.ts'

interface SeenDecision {
  readonly policy: string
  readonly placement: { readonly engine: string }
  readonly candidates: readonly { readonly engine: string; readonly cost: number }[]
}

const PROMPT = Array.from({ length: 160 }, (_, at) => at)
const BLOCKS = PROMPT.length / 16
const guarded = [
  ['policy', 'qps'],
  ['overlap_weight', 2],
  ['temperature', 0.5],
  ['priority', 1],
  ['expected_output_tokens', 9],
] as const

export function overridesContract(runtime: string, open: OpenLmcache): void {
  let world: LmcacheWorld | null = null
  afterEach(async () => {
    await world?.close()
    world = null
  })

  const start = async (pool: PoolDocument): Promise<void> => {
    world = await open({
      service: async () => new Response(null, { status: 404 }),
      pool: () => ({ lmcache: { registry: true }, ...pool }),
    })
  }

  /** The same overrides in the body and in the header. */
  const ways = (options: object): readonly (readonly [object, Readonly<Record<string, string>>])[] => [
    [{ firstlight: options }, {}],
    [{}, { 'x-firstlight-options': JSON.stringify(options) }],
  ]

  const ask = (
    key: keyof typeof lmcacheKeys,
    more: object = {},
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Response> =>
    world!.send('/v1/completions', {
      method: 'POST',
      headers: { authorization: `Bearer ${lmcacheKeys[key]}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'sim', prompt: PROMPT, max_tokens: 1, ...more }),
    })

  async function decided(
    options: object,
    way = 0,
  ): Promise<{ readonly headers: Headers; readonly decision: SeenDecision }> {
    const response = await ask('free', ...ways(options)[way]!)
    await response.text()
    const decision = await world!.send(`/v1/firstlight/decisions/${response.headers.get('x-firstlight-decision')}`, {
      headers: { authorization: `Bearer ${lmcacheKeys.admin}` },
    })
    return { headers: response.headers, decision: (await decision.json()) as SeenDecision }
  }

  describe(`overrides of a request, on ${runtime}`, () => {
    it.each(guarded)(
      '%s is refused to a key that may not, by name, and never reaches an engine',
      async (name, value) => {
        await start({ policy: 'active_blocks' })
        for (const [more, headers] of ways({ [name]: value })) {
          const response = await ask('plain', more, headers)
          expect([response.status, ((await response.json()) as { error: { param: string } }).error.param]).toEqual([
            403,
            `firstlight.${name}`,
          ])
        }
        expect(world!.fleet.engines.map(({ log }) => log.inference)).toEqual([0, 0, 0])
      },
    )

    it.each([0, 1])('a policy takes the place of the pool’s, and the headers name it (way %i)', async (way) => {
      await start({ policy: 'active_blocks' })
      const { headers, decision } = await decided({ policy: 'least_loaded' }, way)
      expect(decision.policy).toBe('least_loaded')
      expect(headers.get('x-firstlight-policy')).toBe('least_loaded')
      expect(headers.get('x-firstlight-engine')).toBe(decision.placement.engine)
      expect(headers.get('x-firstlight-cluster')).toBe('one')
    })

    it.each([0, 1])('a weight changes the costs (way %i)', async (way) => {
      await start({ policy: 'active_blocks' })
      const costs = []
      for (const weight of [0, 2])
        costs.push(
          Math.max(...(await decided({ overlap_weight: weight }, way)).decision.candidates.map(({ cost }) => cost)),
        )
      expect(costs[1]! - costs[0]!).toBeCloseTo(2 * BLOCKS)
    })

    it.each([0, 1])('names of Dynamo’s router_config_override mean the same (way %i)', async (way) => {
      await start({ policy: 'active_blocks' })
      const costOf = async (options: object) =>
        Math.max(...(await decided(options, way)).decision.candidates.map(({ cost }) => cost))
      const without = await costOf({ overlap_score_weight: 0, router_temperature: 0 })
      expect((await costOf({ overlap_score_weight: 2 })) - without).toBeCloseTo(2 * BLOCKS)
      for (const name of ['overlap_score_weight', 'router_temperature'])
        expect((await ask('plain', ...ways({ [name]: 1 })[way]!)).status).toBe(403)
      const twice = await ask('free', ...ways({ overlap_score_weight: 1, overlap_weight: 1 })[way]!)
      expect([twice.status, await twice.text()]).toEqual([400, expect.stringContaining('Send one of them.')])
    })

    it.each([0, 1])('a temperature lets dearer engines win, and none lets them (way %i)', async (way) => {
      await start({ policy: 'active_blocks' })
      const { headers } = await decided({})
      const cached = headers.get('x-firstlight-engine')
      const dryRun = async (temperature: number): Promise<string> => {
        const [more, options] = ways({ temperature })[way]!
        const response = await world!.send('/v1/firstlight/route?endpoint=/v1/completions', {
          method: 'POST',
          headers: { authorization: `Bearer ${lmcacheKeys.admin}`, 'content-type': 'application/json', ...options },
          body: JSON.stringify({ model: 'sim', prompt: PROMPT, ...more }),
        })
        return ((await response.json()) as { decision: SeenDecision }).decision.placement.engine
      }
      for (let at = 0; at < 8; at++) expect(await dryRun(0)).toBe(cached)
      // Nearly every third draw selects the cached engine: the probability that all do is 1 in 10^20.
      const drawn = new Set<string>()
      for (let at = 0; at < 50 && drawn.size < 2; at++) drawn.add(await dryRun(10))
      expect(drawn.size).toBe(2)
    })

    it('a session keeps its engine, for every key', async () => {
      await start({ policy: 'session' })
      const engines = []
      for (let at = 0; at < 4; at += 1) {
        const response = await ask('plain', ...ways({ session: 'mine' })[at % 2]!)
        await response.text()
        engines.push(response.headers.get('x-firstlight-engine'))
      }
      expect(new Set(engines).size).toBe(1)
    })

    it.each([0, 1])('a deadline that cannot be met is refused, without a retry (way %i)', async (way) => {
      await start({})
      const response = await ask('plain', ...ways({ ttft_deadline_ms: 0 })[way]!)
      expect(response.status).toBe(429)
      expect(response.headers.get('x-should-retry')).toBe('false')
      expect(await response.json()).toMatchObject({ error: { type: 'rate_limit_error', code: 'deadline_unmet' } })
      const met = await ask('plain', ...ways({ ttft_deadline_ms: 60_000 })[way]!)
      expect(met.status).toBe(200)
      await met.text()
    })

    it.each([-1, 1e308, '5s', null])('a deadline of %j is refused by name', async (value) => {
      await start({})
      const response = await ask('plain', { firstlight: { ttft_deadline_ms: value } })
      expect(response.status).toBe(400)
      expect(((await response.json()) as { error: { param: string } }).error.param).toBe('firstlight.ttft_deadline_ms')
    })

    it('a key may lower its class, and may not raise it', async () => {
      await start({})
      const lowered = await ask('plain', { firstlight: { class: 'sheddable' } })
      expect(lowered.status).toBe(200)
      await lowered.text()
      const raised = await ask('plain', { firstlight: { class: 'critical' } })
      expect([raised.status, ((await raised.json()) as { error: { param: string } }).error.param]).toEqual([
        403,
        'firstlight.class',
      ])
    })

    it.each([
      ['plain', {}, undefined],
      ['plain', { class: 'sheddable' }, 1],
      ['free', { class: 'critical' }, -1],
      ['free', { class: 'critical', priority: 4 }, 4],
    ] as const)('a class is the priority at engines that schedule by it (%s, %j)', async (key, options, priority) => {
      for (const class_priority of [true, false]) {
        await start({ class_priority, retry: { mid_stream: 'ids' } })
        await (await ask(key, { firstlight: options, stream: true })).text()
        const [seen] = world!.fleet.engines
          .flatMap(({ log }) => log.recent)
          .filter(({ path }) => path.includes('completions'))
        const sent = class_priority || 'priority' in options ? priority : undefined
        expect((JSON.parse(seen!.body) as { priority?: number }).priority).toBe(sent)
        await world!.close()
        world = null
      }
    })

    it('a priority that the client may set itself is not replaced by its class', async () => {
      await start({ class_priority: true })
      await (await ask('free', { priority: 9, firstlight: { class: 'critical' } })).text()
      const [seen] = world!.fleet.engines
        .flatMap(({ log }) => log.recent)
        .filter(({ path }) => path.includes('completions'))
      expect((JSON.parse(seen!.body) as { priority?: number }).priority).toBe(9)
    })

    it('overrides of a request are removed from the request to the engine', async () => {
      await start({ policy: 'active_blocks' })
      await decided({ policy: 'qps', temperature: 1 })
      await decided({ policy: 'qps' }, 1)
      const seen = world!.fleet.engines
        .flatMap(({ log }) => log.recent)
        .filter(({ path }) => path === '/v1/completions')
      expect(seen).toHaveLength(2)
      for (const { body, headers } of seen)
        expect([body.includes('firstlight'), headers['x-firstlight-options']]).toEqual([false, undefined])
    })
  })
}
