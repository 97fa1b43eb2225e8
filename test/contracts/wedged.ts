/** An engine that is alive and does not move, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import type { FakeAnswer } from '../kit/fake-answer.ts'
import type { EngineRequest } from '../kit/engine-request.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { HeldAnswer } from '../kit/held-engine.ts'
import { completion, DONE, sseEvent, sseAnswer } from '../kit/sse.ts'
import { until } from '../wait.ts'
import { MODEL, openGateway, runtimeNames, type Runtime } from '../kit/gateway.ts'

const USAGE = { prompt_tokens: 7, completion_tokens: 1, total_tokens: 8 }

/** An engine whose health check passes all the time. */
class StoppableEngine {
  readonly id: string
  isStopped = false
  /** Requests that do not move while it is stopped. Default: all. */
  stops: (request: EngineRequest) => boolean = () => true
  /** Answer to requests of clients instead of a completion; null: a completion. */
  refusal: FakeAnswer | null = null
  refused = 0
  /** Requests of clients that it got. */
  posts = 0
  /** Requests of the gateway itself. */
  trials = 0
  /** How often its metrics were read. */
  reads = 0
  readonly #held: HeldAnswer[] = []
  #engine!: FakeEngine

  constructor(id: string) {
    this.id = id
  }

  async open(): Promise<void> {
    this.#engine = await FakeEngine.open({
      'POST *': (request) => this.#serve(request),
      'GET /metrics': () => this.#metrics(),
      '*': { body: '' },
    })
  }

  get url(): string {
    return this.#engine.url
  }

  async close(): Promise<void> {
    for (const held of this.#held) held.reset()
    await this.#engine.close()
  }

  /** Answers all requests that do not move with an error. */
  failHeld(): void {
    for (const held of this.#held) held.send({ status: 500, body: 'The engine is broken.' })
  }

  #metrics(): FakeAnswer {
    this.reads += 1
    return { body: 'vllm:num_requests_running 1\nvllm:generation_tokens_total 7\n' }
  }

  #serve(request: EngineRequest): FakeAnswer | Promise<FakeAnswer> {
    if (request.isTrial) this.trials += 1
    else this.posts += 1
    if (this.refusal !== null && !request.isTrial) {
      this.refused += 1
      return this.refusal
    }
    if (!this.isStopped || !this.stops(request)) return answerOf(this.id, request)
    const held = new HeldAnswer(request)
    this.#held.push(held)
    return held.answer
  }
}

const FULL: FakeAnswer = {
  status: 503,
  headers: { 'retry-after': '1' },
  body: { error: { message: 'The request queue is full.', type: 'ServiceUnavailableError', code: 503 } },
}

const BAD_GRAMMAR: FakeAnswer = {
  status: 400,
  body: { error: { message: 'The grammar is not valid.', type: 'BadRequestError', code: 400 } },
}

function answerOf(text: string, { json }: EngineRequest): FakeAnswer {
  if (json['stream'] !== true) return { body: { ...completion(text, USAGE), id: 'x', created: 1, model: MODEL } }
  const chunk = (more: object): string =>
    sseEvent({ id: 'x', created: 1, model: MODEL, object: 'chat.completion.chunk', ...more })
  const first = chunk({ choices: [{ index: 0, delta: { content: text }, finish_reason: 'stop' }] })
  return sseAnswer([first, chunk({ choices: [], usage: USAGE }) + DONE])
}

export function wedgedContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`an engine that does not move, and whose health check passes, on ${name}`, () => {
    const open: (() => Promise<void>)[] = []
    afterEach(async () => {
      for (const close of open.splice(0).reverse()) await close()
    })

    const site = async (ids: readonly string[], pool: object = {}) => {
      const engines = ids.map((id) => new StoppableEngine(id))
      for (const engine of engines) {
        await engine.open()
        open.push(() => engine.close())
      }
      const gateway = await openGateway({
        runtime,
        engines: engines.map(({ id, url }) => ({ id, url })),
        pool: { policy: 'round_robin', observe_share: 1, ...pool },
      })
      open.push(() => gateway.close())
      const ask = async (stream: boolean): Promise<string | null> => {
        const messages = [{ role: 'user', content: 'hello' }]
        const response = await gateway.chat(
          { messages, stream, max_tokens: 4 },
          { signal: AbortSignal.timeout(60_000) },
        )
        await response.text()
        return response.status === 200 ? response.headers.get('x-firstlight-engine') : `status ${response.status}`
      }
      const conditions = async (): Promise<Record<string, unknown>> =>
        Object.fromEntries(Object.values(await gateway.engines()).map(({ id, condition }) => [id, condition]))
      // Both engines are learned.
      for (let at = 0; at < 12; at++) await ask(true)
      return { engines, ask, conditions }
    }

    it.each([
      ['streams', true],
      ['do not stream', false],
    ])(
      'no request that waits at a wedged engine is lost (they %s), and the engine is used again when it moves',
      async (_, stream) => {
        const { engines, ask, conditions } = await site(['a', 'b'])
        const a = engines[0]!
        a.isStopped = true
        const before = a.posts
        const answers = await Promise.all(Array.from({ length: 6 }, () => ask(stream)))
        expect(a.posts).toBeGreaterThan(before)
        expect(answers).toEqual(answers.map(() => 'b'))
        expect((await conditions())['a']).toBe('wedged')
        expect(a.trials).toBeGreaterThan(0)
        const placed = a.posts
        for (let at = 0; at < 6; at++) expect(await ask(stream)).toBe('b')
        expect(a.posts).toBe(placed)
        a.isStopped = false
        expect(await until(async () => (await ask(stream)) === 'a' || null, 50)).toBe(true)
        expect(await conditions()).toMatchObject({ a: 'well', b: 'well' })
      },
      120_000,
    )

    it.each([
      ['chats hang', ({ path }: EngineRequest) => path === '/v1/chat/completions'],
      // Such as the compilation of a grammar: the gateway's trials do not show it.
      ['requests of clients hang, while all trials are answered', ({ isTrial }: EngineRequest) => !isTrial],
    ] as const)(
      'no request is lost at an engine whose %s',
      async (_, stops) => {
        const { engines, ask } = await site(['a', 'b'])
        const a = engines[0]!
        a.stops = stops
        a.isStopped = true
        const before = a.posts
        const answers = await Promise.all(Array.from({ length: 4 }, () => ask(true)))
        expect(a.posts).toBeGreaterThan(before)
        expect(answers).toEqual(answers.map(() => 'b'))
        expect(a.trials).toBeGreaterThan(0)
      },
      120_000,
    )

    it('no request that waits at a wedged engine is lost because the other engine is full for a while', async () => {
      const { engines, ask } = await site(['a', 'b'])
      const [a, b] = engines as [StoppableEngine, StoppableEngine]
      a.isStopped = true
      b.refusal = FULL
      // One of two is placed at the full engine, and moves to the other one.
      const before = a.posts
      const asking = Promise.all([ask(true), ask(true)])
      await until(() => a.posts === before + 2)
      await until(() => b.refused >= 4)
      b.refusal = null
      expect(await asking).toEqual(['b', 'b'])
    }, 120_000)

    it('no request that waits at a wedged engine is lost because its hedge was refused', async () => {
      const { engines, ask } = await site(['a', 'b'], { retry: { hedge_ms: 1, share: 0, min_per_s: 0 } })
      const a = engines[0]!
      a.isStopped = true
      const before = a.posts
      const answers = await Promise.all([ask(true), ask(true)])
      expect(a.posts).toBeGreaterThan(before)
      expect(answers).toEqual(['b', 'b'])
    }, 120_000)

    it('no request that waits at a wedged engine is lost because its hedge failed', async () => {
      const { engines, ask } = await site(['a', 'b'], { retry: { hedge_ms: 300, share: 1, min_per_s: 1_000 } })
      const [a, b] = engines as [StoppableEngine, StoppableEngine]
      a.isStopped = true
      b.refusal = FULL
      const before = a.posts
      // One of two is placed at the full engine, and moves to the other one, which is not hedged.
      const asking = Promise.all([ask(true), ask(true)])
      await until(() => a.posts === before + 2 && b.refused >= 2)
      b.refusal = null
      expect(await asking).toEqual(['b', 'b'])
    }, 120_000)

    it('no request that waits at a wedged engine is lost because it went there as a hedge of a failed engine', async () => {
      const { engines, ask } = await site(['a', 'b', 'c'], { retry: { hedge_ms: 300, share: 1, min_per_s: 1_000 } })
      const before = new Map(engines.map((engine) => [engine, engine.posts]))
      const reached = (not?: StoppableEngine) =>
        until(() => engines.find((engine) => engine !== not && engine.posts > before.get(engine)!) ?? null)
      for (const engine of engines) engine.isStopped = true
      const asking = ask(true)
      const first = await reached()
      const second = await reached(first)
      const third = engines.find((engine) => engine !== first && engine !== second)!
      third.isStopped = false
      first.failHeld()
      expect(await asking).toBe(third.id)
    }, 120_000)

    it('a request that waits at a wedged engine gets the refusal of another engine', async () => {
      const { engines, ask } = await site(['a', 'b'])
      const [a, b] = engines as [StoppableEngine, StoppableEngine]
      a.isStopped = true
      b.refusal = BAD_GRAMMAR
      const before = a.posts
      const answers = await Promise.all([ask(true), ask(true)])
      expect(a.posts).toBe(before + 1)
      expect(answers).toEqual(['status 400', 'status 400'])
    }, 120_000)

    it('a silent engine is asked for its counters again and again, however rarely metrics are read', async () => {
      const { engines, ask } = await site(['a', 'b'], { stats_interval_ms: 600_000 })
      const a = engines[0]!
      await until(() => a.reads > 0)
      const before = a.reads
      a.isStopped = true
      const asking = Promise.all(Array.from({ length: 4 }, () => ask(true)))
      await until(() => a.reads >= before + 3)
      a.isStopped = false
      expect(await asking).toContain('b')
    }, 120_000)

    it('a wedged engine keeps its requests if no other engine is left', async () => {
      const { engines, ask, conditions } = await site(['a', 'b'])
      for (const engine of engines) engine.isStopped = true
      const asking = ask(true)
      const again = ask(true)
      await until(async () => Object.values(await conditions()).includes('wedged') || null, 100)
      for (const engine of engines) engine.isStopped = false
      // A further request shows that the pool is still in use.
      expect(await until(async () => ['a', 'b'].includes((await ask(true)) ?? '') || null, 50)).toBe(true)
      for (const engine of engines) await engine.close()
      await Promise.all([asking, again].map((one) => one.catch(() => null)))
    }, 120_000)
  })
}
