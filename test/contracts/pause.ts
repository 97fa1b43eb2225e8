/** Pools that an operator pauses to update their weights, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import type { Routes } from '../kit/fake-answer.ts'
import { ADMIN_KEY, MODEL, openGateway, type Runtime, runtimeNames, type TestGateway } from '../kit/gateway.ts'
import { HeldEngine } from '../kit/held-engine.ts'
import { completion, DONE, token } from '../kit/sse.ts'
import { until } from '../wait.ts'

const ADMIN = { headers: { authorization: `Bearer ${ADMIN_KEY}` } }

const CHAT = '/v1/chat/completions'

interface PauseAnswer {
  readonly paused?: boolean
  readonly resumed?: boolean
  readonly engines: readonly { readonly engine: string; readonly state: string; readonly weight_version: unknown }[]
}

/** Routes of an engine whose weights have a version. */
const WEIGHTS = {
  vllm: (of: { version: string }): Routes => ({
    'GET /weight_info': () => ({ body: { weight_version: of.version } }),
    'POST /pause': { body: { status: 'paused' } },
    'POST /resume': { body: { status: 'resumed' } },
  }),
  sglang: (of: { version: string }): Routes => ({
    'GET /model_info': () => ({ body: { model_path: 'm', weight_version: of.version } }),
    'POST /pause_generation': { body: { status: 'ok' } },
    'POST /continue_generation': { body: { status: 'ok' } },
  }),
}

const BAD_COMMANDS = [
  ['other/pause', { mode: 'wait' }, 'pool', "pool is 'other'. It must be one of the pools m."],
  ['other/resume', {}, 'pool', "pool is 'other'. It must be one of the pools m."],
  ['m/pause', { mode: 'stop' }, 'mode', "mode is 'stop'. It must be one of wait, abort, keep."],
  ['m/pause', {}, 'mode', "mode is ''. It must be one of wait, abort, keep."],
  ['m/pause', { mode: 'wait', timeout_s: -1 }, 'timeout_s', "timeout_s is '-1'. It must be a number of seconds"],
  ['m/pause', { mode: 'wait', cluster: 'x' }, 'cluster', "cluster is 'x'. It must be one of the clusters"],
  ['m/resume', { weights: 'old' }, 'weights', "weights is 'old'. It must be one of compare, same."],
  ['m/resume', { mode: 'wait' }, 'mode', "mode is 'wait'. It is not one of the options weights, cluster."],
] as const

export function pauseContract(runtime: Runtime): void {
  describe(`a gateway on ${runtimeNames[runtime]} whose pool is paused`, () => {
    const opened: { close(): Promise<unknown> }[] = []
    const weights = { version: 'v1' }

    afterEach(async () => {
      weights.version = 'v1'
      for (const one of opened.splice(0).reverse()) await one.close()
    })

    const queue = { max_wait_ms: 10_000, no_engine_wait_ms: 120_000 }

    async function openPool(
      type: 'vllm' | 'sglang' | 'llama.cpp' = 'vllm',
      pool: Readonly<Record<string, unknown>> = { queue },
    ) {
      const routes = type === 'llama.cpp' ? {} : WEIGHTS[type](weights)
      const engine = await HeldEngine.open({ routes: () => routes })
      const gateway = await openGateway({ runtime, engines: [{ id: 'a', url: engine.url, type }], pool })
      opened.push(engine, gateway)
      return { engine, gateway }
    }

    const command = async (gateway: TestGateway, path: string, body: object = {}, init: RequestInit = ADMIN) => {
      const response = await gateway.post(`/v1/firstlight/pools/${path}`, body, init)
      return { status: response.status, json: (await response.json()) as PauseAnswer }
    }
    const pause = (gateway: TestGateway, mode: string) => command(gateway, `${MODEL}/pause`, { mode })
    const resume = (gateway: TestGateway, options: object = {}) => command(gateway, `${MODEL}/resume`, options)

    const waiting = async (gateway: TestGateway): Promise<number> => {
      const { pools } = await gateway.fleet()
      return (pools[0] as unknown as { queue?: { requests: number } }).queue?.requests ?? 0
    }

    /** A stream whose first token the client has. */
    async function begun(gateway: TestGateway, engine: HeldEngine) {
      const answer = gateway.chat({ stream: true })
      const held = await until(() => engine.held.at(-1))
      held.begin(token('hello'))
      return { held, response: await answer }
    }

    const chats = (engine: HeldEngine): number => engine.engine.posts.filter(({ path }) => path === CHAT).length

    it.each([
      ['vllm', 'POST /pause', 'POST /resume'],
      ['sglang', 'POST /pause_generation', 'POST /continue_generation'],
    ] as const)(
      'a gateway whose pool is paused ends what runs, then pauses an engine of type %s, while new requests wait',
      async (type, ...calls) => {
        const { engine, gateway } = await openPool(type)
        const { held, response } = await begun(gateway, engine)
        const pausing = pause(gateway, 'wait')
        await until(async () => (await gateway.engines())['a']!['paused'] !== undefined)
        const later = gateway.chat()
        await until(async () => (await waiting(gateway)) === 1)
        expect(engine.engine.calls).not.toContain(calls[0])
        held.end()
        expect(await response.text()).toContain('[DONE]')
        const version = type === 'vllm' ? '{"weight_version":"v1"}' : '"v1"'
        expect(await pausing).toEqual({
          status: 200,
          json: {
            pool: MODEL,
            mode: 'wait',
            paused: true,
            engines: [{ cluster: 'c', engine: 'a', state: 'paused', weight_version: version }],
          },
        })
        expect(engine.engine.calls).toContain(calls[0])
        expect(chats(engine)).toBe(1)
        expect(await resume(gateway)).toMatchObject({ status: 200, json: { resumed: true } })
        expect(engine.engine.calls).toContain(calls[1])
        const again = await until(() => engine.held[0])
        again.send({ body: completion('new') })
        expect((await later).status).toBe(200)
        await gateway.idle()
      },
    )

    it('a gateway whose pool is paused lets kept streams go on if the weights are the same', async () => {
      const { engine, gateway } = await openPool()
      const { held, response } = await begun(gateway, engine)
      expect((await pause(gateway, 'keep')).json.paused).toBe(true)
      expect((await resume(gateway)).json.resumed).toBe(true)
      held.end(token(' world') + DONE)
      const text = await response.text()
      expect(text).toContain(' world')
      expect(text).toContain('[DONE]')
    })

    it.each(['vllm', 'sglang'] as const)(
      'a gateway whose pool is paused mixes no versions in the answers of %s',
      async (type) => {
        const { engine, gateway } = await openPool(type)
        const { held, response } = await begun(gateway, engine)
        const silent = gateway.chat({ stream: true })
        await until(() => engine.held.length === 2)
        const plain = gateway.chat()
        await until(() => engine.held.length === 3)
        expect((await pause(gateway, 'keep')).json.paused).toBe(true)
        weights.version = 'v2'
        expect(await resume(gateway)).toMatchObject({ status: 200, json: { resumed: true } })
        // What the engine kept goes on with other weights, and nobody may get it.
        for (const one of [held, ...engine.held]) if (one.isAborted) one.end(token('mixed') + DONE)
        const text = await response.text().catch((error: unknown) => String(error))
        expect(text).not.toContain('mixed')
        expect(text).not.toContain('[DONE]')
        // Each of the others is sent again.
        await until(() => chats(engine) === 5)
        const [stream, whole] = await until(() => {
          const running = engine.held.filter(({ isAborted }) => !isAborted)
          const isStream = (one: (typeof running)[number]) => one.request.json['stream'] === true
          return running.length === 2 && [running.find(isStream)!, running.find((one) => !isStream(one))!]
        })
        stream!.begin(token('again') + DONE)
        stream!.end('')
        whole!.send({ body: completion('whole') })
        expect(await (await silent).text()).toContain('again')
        expect(await (await plain).text()).toContain('whole')
        await gateway.idle()
      },
    )

    it('a gateway whose pool is paused ends a stream that would mix versions with an error event', async () => {
      const { engine, gateway } = await openPool()
      const { response } = await begun(gateway, engine)
      const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
      let text = ''
      const reading = (async () => {
        for (;;) {
          const { done, value } = await reader.read()
          if (done) return
          text += value
        }
      })().catch(() => {})
      await pause(gateway, 'keep')
      weights.version = 'v2'
      await resume(gateway)
      await reading
      expect(text).toContain('hello')
      expect(text).toContain('engine_stream_truncated')
      expect(text).toContain('paused')
      expect((await gateway.engines())['a']).toMatchObject({ circuit: 'closed', failures_total: 0 })
    })

    it('a gateway whose pool is paused counts weights as changed if the engine tells no version, unless the operator says otherwise', async () => {
      const { engine, gateway } = await openPool()
      engine.engine.routes['GET /weight_info'] = { status: 404 }
      const first = await begun(gateway, engine)
      await pause(gateway, 'keep')
      await resume(gateway, { weights: 'same' })
      first.held.end()
      expect(await first.response.text()).toContain('[DONE]')
      await gateway.idle()
      const second = await begun(gateway, engine)
      await pause(gateway, 'keep')
      await resume(gateway)
      expect(await second.response.text().catch(() => '')).not.toContain('[DONE]')
    })

    it('ends or repeats what runs at once in the mode `abort`', async () => {
      const { engine, gateway } = await openPool()
      const { response } = await begun(gateway, engine)
      const silent = gateway.chat({ stream: true })
      await until(() => engine.held.length === 2)
      expect((await pause(gateway, 'abort')).json.paused).toBe(true)
      expect(await response.text().catch(() => '')).not.toContain('[DONE]')
      await until(async () => (await waiting(gateway)) === 1)
      await resume(gateway)
      const again = await until(() => engine.held.find(({ isAborted }) => !isAborted))
      again.begin(token('again') + DONE)
      again.end('')
      expect(await (await silent).text()).toContain('again')
    })

    it('a gateway whose pool is paused holds an engine that cannot be paused', async () => {
      const { engine, gateway } = await openPool('llama.cpp')
      const { held, response } = await begun(gateway, engine)
      const pausing = pause(gateway, 'keep')
      await until(async () => (await gateway.engines())['a']!['paused'] !== undefined)
      held.end()
      await response.text()
      expect((await pausing).json.engines).toMatchObject([{ state: 'held' }])
    })

    it('a gateway whose pool is paused refuses requests without a queue, and tells when to try again', async () => {
      const { gateway } = await openPool('vllm', {})
      await pause(gateway, 'wait')
      const refused = await gateway.chat()
      expect([refused.status, Number(refused.headers.get('retry-after')) > 0]).toEqual([503, true])
    })

    it('a gateway whose pool is paused stays paused if an engine does not obey', async () => {
      const { engine, gateway } = await openPool()
      engine.engine.routes['POST /pause'] = { status: 500, body: { error: 'no' } }
      expect(await pause(gateway, 'wait')).toMatchObject({ status: 502, json: { paused: false } })
      engine.engine.routes['POST /resume'] = { status: 500 }
      expect(await resume(gateway)).toMatchObject({ status: 502, json: { resumed: false } })
      expect((await gateway.engines())['a']).toMatchObject({ available: false, paused: { keeps: false } })
    })

    it('a gateway whose pool is paused names the bad value of a command and the rule, and changes nothing', async () => {
      const { gateway } = await openPool()
      for (const [path, body, param, message] of BAD_COMMANDS) {
        const { status, json } = await command(gateway, path, body)
        expect([status, json], path).toMatchObject([
          400,
          { error: { param, message: expect.stringContaining(message) } },
        ])
      }
      expect((await gateway.engines())['a']).toMatchObject({ available: true })
    })

    it('a gateway whose pool is paused changes nothing without the key of the administrator', async () => {
      const { engine, gateway } = await openPool()
      for (const action of ['pause', 'resume'])
        for (const init of [{}, { headers: { authorization: 'Bearer wrong' } }])
          expect((await command(gateway, `${MODEL}/${action}`, { mode: 'wait' }, init)).status).toBe(401)
      expect((await gateway.engines())['a']).toMatchObject({ available: true })
      expect(engine.engine.posts).toEqual([])
    })
  })
}
