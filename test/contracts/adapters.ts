/** Adapters that only some engines of a pool have loaded, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { MODEL, openGateway, type Runtime, runtimeNames } from '../kit/gateway.ts'
import { LoraEngine, type LoraType } from '../kit/lora-engine.ts'
import { completion } from '../kit/sse.ts'
import { until } from '../wait.ts'

const CHAT = '/v1/chat/completions'

const listOf = (...adapters: string[]) => ({
  body: {
    object: 'list',
    data: [
      { id: MODEL, object: 'model', parent: null },
      ...adapters.map((id) => ({ id, object: 'model', parent: MODEL, root: `/adapters/${id}` })),
    ],
  },
})

export function adaptersContract(runtime: Runtime): void {
  describe(`adapters of engines behind a gateway on ${runtimeNames[runtime]}`, () => {
    const opened: { close(): Promise<unknown> }[] = []

    afterEach(async () => {
      for (const one of opened.splice(0).reverse()) await one.close()
    })

    async function site(type: string, lists: readonly (readonly string[])[]) {
      const engines = await Promise.all(
        lists.map((adapters) =>
          FakeEngine.open({ 'POST *': { body: completion() }, 'GET /v1/models': listOf(...adapters) }),
        ),
      )
      const gateway = await openGateway({
        runtime,
        engines: engines.map(({ url }, at) => ({ id: `e${at}`, url, type })),
        pool: { adapters: ['sql', 'poet'], policy: 'round_robin', stats_interval_ms: 100 },
      })
      opened.push(...engines, gateway)
      /** Engines of several requests, one after the other. */
      const used = async (model: string): Promise<string> => {
        const names = new Set<string | null>()
        for (let sent = 0; sent < 4; sent++) {
          const answer = await gateway.chat({ model })
          expect(answer.status).toBe(200)
          names.add(answer.headers.get('x-firstlight-engine'))
        }
        return [...names].toSorted().join()
      }
      return { engines, used }
    }

    it.each(['vllm', 'sglang'])(
      'adapters of engines behind a gateway are requested where they are loaded (%s)',
      async (type) => {
        const { engines, used } = await site(type, [[], ['sql']])
        await until(async () => (await used('sql')) === 'e1')
        const before = engines[0]!.posts.filter(({ path }) => path === CHAT).length
        expect(await used('sql')).toBe('e1')
        expect(engines[0]!.posts.filter(({ path }) => path === CHAT)).toHaveLength(before)
        expect(await used(MODEL)).toBe('e0,e1')
      },
    )

    it('adapters of engines behind a gateway are requested anywhere if no engine has loaded them: one may load them itself', async () => {
      const { used } = await site('vllm', [[], ['sql']])
      await until(async () => (await used('sql')) === 'e1')
      expect(await used('poet')).toBe('e0,e1')
    })

    /** Each Worker takes seconds to start. */
    const typesOn = (...inWorker: readonly LoraType[]): readonly LoraType[] =>
      runtime === 'node' ? ['vllm', 'sglang'] : inWorker

    interface LoadingSite {
      /** Adapters that each engine has at the start. */
      readonly loaded?: readonly (readonly string[])[]
      readonly settings?: Readonly<Record<string, unknown>>
      readonly type?: string
      readonly config?: Readonly<Record<string, unknown>>
    }

    /** Engines that may load adapters. */
    async function loadingSite(
      kind: LoraType,
      { loaded = [[]], settings = {}, type = kind, config = {} }: LoadingSite = {},
    ) {
      const engines = await Promise.all(loaded.map((names) => LoraEngine.open(kind, names)))
      const names = ['sql', 'poet', { name: 'code', path: 'org/code', base: MODEL }]
      const gateway = await openGateway({
        runtime,
        engines: engines.map(({ url }, at) => ({ id: `e${at}`, url, type })),
        pool: {
          adapters: { names, load: true, path: '/adapters/{name}', max_per_engine: 2, ...settings },
          stats_interval_ms: 100,
        },
        config,
      })
      opened.push(...engines, gateway)
      const chat = async (model: string): Promise<number> => {
        const answer = await gateway.chat({ model })
        await answer.text()
        return answer.status
      }
      return { engines, gateway, chat, engine: engines[0]! }
    }

    it.each(typesOn('vllm', 'sglang'))(
      'adapters are loaded once for all requests that wait, from the path of the operator (%s)',
      async (kind) => {
        const { engine, engines, chat } = await loadingSite(kind, { loaded: [[], []] })
        const gate = Promise.withResolvers<void>()
        for (const one of engines) one.gate = gate.promise
        const answers = Array.from({ length: 50 }, () => chat('sql'))
        await until(() => engines.some(({ bodies }) => bodies.length > 0))
        gate.resolve()
        expect(new Set(await Promise.all(answers))).toEqual(new Set([200]))
        expect(engines.flatMap(({ changes }) => changes)).toEqual(['+sql'])
        expect(engines.flatMap(({ bodies }) => bodies)[0]).toEqual({ lora_name: 'sql', lora_path: '/adapters/sql' })
        expect(engines.flatMap(({ answered }) => answered)).toEqual(Array.from({ length: 50 }, () => 'sql'))
        expect(await chat('code')).toBe(200)
        expect(engines.flatMap(({ bodies }) => bodies)).toContainEqual({ lora_name: 'code', lora_path: 'org/code' })
        expect(engine.type).toBe(kind)
      },
    )

    it.each(typesOn('vllm'))('a stream whose adapter is loaded gets heartbeats meanwhile (%s)', async (kind) => {
      const { engine, gateway } = await loadingSite(kind, { config: { limits: { heartbeat_ms: 50 } } })
      const gate = Promise.withResolvers<void>()
      engine.gate = gate.promise
      const answer = await gateway.chat({ model: 'sql', stream: true })
      expect([answer.status, engine.answered]).toEqual([200, []])
      const reader = answer.body!.getReader()
      for (let beats = 0; beats < 3; beats++)
        expect(new TextDecoder().decode((await reader.read()).value)).toMatch(/^(?:: ping\n)+$/)
      gate.resolve()
      await until(() => engine.answered.length === 1)
      await reader.cancel()
      expect(engine.changes).toEqual(['+sql'])
    })

    it.each(typesOn('sglang'))(
      'the adapter that was not used for longest makes room for another, and comes back (%s)',
      async (kind) => {
        const { engine, chat } = await loadingSite(kind)
        for (const model of ['sql', 'poet', 'sql', 'code', 'poet', MODEL]) expect(await chat(model)).toBe(200)
        expect(engine.changes).toEqual(['+sql', '+poet', '-poet', '+code', '-sql', '+poet'])
        expect(engine.answered).toEqual(['sql', 'poet', 'sql', 'code', 'poet', MODEL])
      },
    )

    it.each(typesOn('vllm'))('an adapter is not unloaded while a request for it runs (%s)', async (kind) => {
      const { engine, chat } = await loadingSite(kind, { settings: { max_per_engine: 1 } })
      const gate = Promise.withResolvers<void>()
      engine.gate = gate.promise
      const sql = chat('sql')
      await until(() => engine.bodies.length > 0)
      expect(await chat('poet')).toBe(429)
      gate.resolve()
      expect(await sql).toBe(200)
      expect(engine.changes).toEqual(['+sql'])
      expect(await chat('poet')).toBe(200)
      expect(engine.changes).toEqual(['+sql', '-sql', '+poet'])
    })

    it.each(typesOn('vllm'))(
      'a load that fails is no fault of the engine: 503, and others are served (%s)',
      async (kind) => {
        const { engine, engines, gateway, chat } = await loadingSite(kind, { loaded: [[], []] })
        for (const one of engines) one.failure = { status: 400, body: { message: 'No adapter found', success: false } }
        const answer = await gateway.chat({ model: 'sql' })
        expect(answer.status).toBe(503)
        expect(await answer.text()).not.toContain('/adapters')
        expect(await chat(MODEL)).toBe(200)
        expect(engine.bodies).toHaveLength(1)
        expect((await gateway.engines())['e0']).toMatchObject({ circuit: 'closed', residents: { failures: 1 } })
      },
    )

    it.each(typesOn('sglang'))(
      'no client makes an engine load an adapter that the operator does not list (%s)',
      async (kind) => {
        const { engine, gateway, chat } = await loadingSite(kind)
        for (const model of ['evil', `${MODEL}:evil`, `${MODEL}:sql`, '../sql', 'sql/../../evil'])
          expect(await chat(model)).toBe(404)
        await (await gateway.chat({ lora_path: '/etc', lora_name: 'evil', lora_request: { path: '/etc' } })).text()
        for (const path of ['/v1/load_lora_adapter', '/load_lora_adapter'])
          expect((await gateway.post(path, { lora_name: 'evil', lora_path: '/etc' })).status).toBe(404)
        expect(engine.bodies).toEqual([])
      },
    )

    it('an adapter never reaches the base model of SGLang, also before a probe has found out the type', async () => {
      const engine = await LoraEngine.open('sglang', ['sql'])
      const gateway = await openGateway({ runtime, engines: [engine], pool: { adapters: ['sql'] } })
      opened.push(engine, gateway)
      expect((await gateway.chat({ model: 'sql' })).status).toBe(200)
      expect(engine.answered).toEqual(['sql'])
    })
  })
}
