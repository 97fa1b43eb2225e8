/** What answers of engines mean for routing: field cases, and each recorded answer of each engine type. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import vectors from '../vectors/engine-answers.json' with { type: 'json' }
import type { Route } from '../kit/fake-answer.ts'
import { EnginePair, openPlainEngine, type EnginePairOptions } from '../kit/engine-pair.ts'
import type { FakeEngine } from '../kit/fake-engine.ts'
import { runtimeNames, type Runtime } from '../kit/gateway.ts'
import { completion, DONE, sseEvent, sseAnswer } from '../kit/sse.ts'

/** An answer as test/vectors has it. */
interface RecordedAnswer {
  readonly status: number
  /** Flat. Absent: JSON. */
  readonly headers?: readonly string[]
  readonly body: string
}

interface Row extends RecordedAnswer {
  readonly body: string
  readonly name: string
  readonly type: string
  readonly sent?: { readonly model?: string | null; readonly adapter?: string | null; readonly path?: string }
  readonly means: { readonly kind: string; readonly lasts?: string; readonly retryAfterS?: number }
}

/** An opening alone is no fault, but a stream that ends after it is. */
const isOpening = ({ body }: Row): boolean => body.startsWith('event: response.created')
const ROWS = (vectors.answers as unknown as readonly Row[]).filter((row) => !isOpening(row))
const QUEUE_FULL = JSON.stringify({
  object: 'error',
  message: 'The request queue is full.',
  type: 'ServiceUnavailableError',
  param: null,
  code: 503,
})
const SSE = ['content-type', 'text/event-stream'] as const
const NO_MODEL: RecordedAnswer = {
  status: 404,
  body: '{"error":{"message":"The model `m` does not exist.","type":"NotFoundError","param":"model","code":404}}',
}

const routeOf = ({ status, headers = ['content-type', 'application/json'], body }: RecordedAnswer): Route => ({
  status,
  headers: Object.fromEntries(headers.flatMap((name, at) => (at % 2 === 0 ? [[name, headers[at + 1]!]] : []))),
  body,
})

/** Answers a chat, as a stream or not. */
const chatOf =
  (content: string): Route =>
  ({ json }) =>
    json['stream'] === true
      ? sseAnswer([
          sseEvent({ id: 'c', choices: [{ index: 0, delta: { content }, finish_reason: 'stop' }] }),
          sseEvent({ id: 'c', choices: [], usage: { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 } }),
          DONE,
        ])
      : { body: completion(content) }

interface ReadAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
}

/** Text of a body; what has arrived is lost if the gateway cuts the stream. */
const textOf = (response: Response): Promise<string> => response.text().catch(() => 'cut')

class AnswersPair {
  readonly #pair: EnginePair

  constructor(pair: EnginePair) {
    this.#pair = pair
  }

  static async open(options: EnginePairOptions): Promise<AnswersPair> {
    const pool = {
      adapters: ['sql'],
      retry: { share: 0, min_per_s: 1000 },
      circuit: { failures: 3, open_ms: 600_000 },
      ...options.pool,
    }
    return new AnswersPair(await EnginePair.open({ ...options, pool }))
  }

  get a(): FakeEngine {
    return this.#pair.a
  }

  get b(): FakeEngine {
    return this.#pair.b
  }

  /** `a` answers like this from now on, and `b` serves. */
  set(answer: RecordedAnswer | 'serves'): void {
    this.#pair.answer(answer === 'serves' ? chatOf('a') : routeOf(answer), chatOf('b'))
  }

  setB(answer: RecordedAnswer): void {
    this.b.routes['POST *'] = routeOf(answer)
  }

  async ask(more: Record<string, unknown> = {}, path = '/v1/chat/completions'): Promise<ReadAnswer> {
    const { gateway } = this.#pair
    const body = { model: 'm', messages: [{ role: 'user', content: 'x' }], max_tokens: 8, ...more }
    const response = await gateway.post(path, body)
    return { status: response.status, headers: response.headers, text: await textOf(response) }
  }

  /** Asks until `a` has had a request, and returns that answer. */
  askA(more: Record<string, unknown> = {}): Promise<ReadAnswer> {
    return this.#pair.untilA(() => this.ask(more))
  }

  view(): ReturnType<EnginePair['view']> {
    return this.#pair.view()
  }

  close(): Promise<void> {
    return this.#pair.close()
  }
}

export function engineAnswersContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  const types = [...new Set(ROWS.map(({ type }) => type))].filter((type) => type !== 'external')
  describe.each(types)(`an answer of %s, on ${name}`, (type) => {
    let pair: AnswersPair
    beforeAll(async () => {
      pair = await AnswersPair.open({
        runtime,
        type: type === 'unknown' ? 'auto' : type,
        pool: { circuit: { failures: 1000 }, stats_interval_ms: 1000 },
      })
    })
    afterAll(() => pair.close())

    it.each(ROWS.filter((row) => row.type === type).map((row) => [row.name, row] as const))('%s', async (_, row) => {
      const { headers = [], means, sent = {} } = row
      const isStream = headers.some((text) => text.includes('event-stream'))
      // A chat without its end would be a failure of its own.
      const body = row.body.includes('[DONE]') || !isStream ? row.body : `${row.body}data: [DONE]\n\n`
      pair.set({ ...row, body })
      // What all engines lack is not learned, so that the next rows reach the engine.
      if (means.kind === 'lacks_route') pair.setB(row)
      const before = (await pair.view()).failures_total
      const answers = await pair.askA({ stream: isStream, model: sent.adapter ?? 'm' })
      const isForwarded = ['ok', 'client', 'lacks_route'].includes(means.kind)
      expect([answers.status, answers.text.includes('"b"')]).toEqual(isForwarded ? [row.status, false] : [200, true])
      if (means.kind === 'lacks_route') expect([pair.a.posts.length, pair.b.posts.length]).toEqual([1, 1])
      const isFault = ['lacks', 'broken'].includes(means.kind)
      // These streams are no whole answers, which is a failure of its own.
      if (means.kind === 'ok' && isStream) return
      await expect.poll(async () => (await pair.view()).failures_total - before).toBe(isFault ? 1 : 0)
      if (means.lasts === 'until_healthy') await expect.poll(async () => (await pair.view()).asleep).toBe(false)
    })
  })

  describe(`engines that cannot serve a request, on ${name}`, () => {
    let pair: AnswersPair
    beforeEach(async () => {
      pair = await AnswersPair.open({ runtime, type: 'auto' })
      return () => pair.close()
    })
    const many = async (count: number, more: Record<string, unknown> = {}, path?: string): Promise<ReadAnswer[]> => {
      const all: ReadAnswer[] = []
      for (let sent = 0; sent < count; sent++) all.push(await pair.ask(more, path))
      return all
    }
    const served = (all: readonly ReadAnswer[]): boolean =>
      all.every(({ status, text }) => status === 200 && text.includes('"b"'))

    it.each<[string, RecordedAnswer, Record<string, unknown>]>([
      ['503', { status: 503, body: QUEUE_FULL }, {}],
      ['the first event of a 200', { status: 200, headers: SSE, body: `data: ${QUEUE_FULL}\n\n` }, { stream: true }],
      ['429', { status: 429, headers: ['retry-after', '7'], body: '{"detail":"slow down"}' }, {}],
    ])('S4: a full queue as %s is no failure, and another engine serves', async (_, answer, more) => {
      pair.set(answer)
      expect(served(await many(10, more))).toBe(true)
      expect(pair.a.posts.length).toBeGreaterThan(3)
      expect(await pair.view()).toMatchObject({ circuit: 'closed', failures_total: 0 })
      pair.set('serves')
      await many(4, more)
      expect(pair.a.posts.length).toBeGreaterThan(0)
    })

    it('429 reaches the client only if all engines are full, with the smallest retry-after, or with one', async () => {
      pair.set({ status: 429, headers: ['retry-after', '7'], body: '' })
      pair.setB({ status: 503, headers: ['retry-after', '5'], body: QUEUE_FULL })
      const full = await pair.ask()
      expect([full.status, full.headers.get('retry-after')]).toEqual([429, '5'])
      expect(JSON.parse(full.text)).toMatchObject({ error: { code: 'engines_full' } })
      pair.set({ status: 503, body: QUEUE_FULL })
      pair.setB({ status: 503, body: QUEUE_FULL })
      expect((await pair.ask()).headers.get('retry-after')).toBe('1')
      expect(await pair.view()).toMatchObject({ circuit: 'closed', failures_total: 0 })
    })

    it('S7: 404 for the configured model is a failure of its engine, and never the client’s answer', async () => {
      pair.set(NO_MODEL)
      expect(served(await many(10))).toBe(true)
      await expect.poll(async () => (await pair.view()).circuit).toBe('open')
      expect(pair.a.posts).toHaveLength(3)
      pair.setB(NO_MODEL)
      const all = await pair.ask()
      expect([all.status, (JSON.parse(all.text) as { error: { code: string } }).error.code]).toEqual([
        503,
        'model_not_loaded',
      ])
    })

    it('a route that one engine lacks is not asked there again, and opens no circuit', async () => {
      pair.set({ status: 404, body: '{"detail":"Not Found"}' })
      pair.setB({
        status: 200,
        body: '{"data":[{"embedding":[1],"b":"b"}],"usage":{"prompt_tokens":1,"total_tokens":1}}',
      })
      expect((await many(10, { input: 'x' }, '/v1/embeddings')).map(({ status }) => status)).toEqual(
        Array(10).fill(200),
      )
      expect(pair.a.posts).toHaveLength(1)
      expect(await pair.view()).toMatchObject({ circuit: 'closed', failures_total: 0 })
      pair.set('serves')
      await many(4)
      expect(pair.a.posts.length).toBeGreaterThan(0)
    })

    it('the answer of a route that all engines lack goes to the client, and nothing is learned', async () => {
      const missing = { status: 404, body: '{"detail":"Not Found"}' }
      pair.set(missing)
      pair.setB(missing)
      const answers = await many(3, { input: 'x' }, '/v1/embeddings')
      expect(answers.map(({ status, text }) => [status, text])).toEqual(answers.map(() => [404, missing.body]))
      expect(pair.a.posts.length + pair.b.posts.length).toBe(6)
      pair.setB({ status: 200, body: '{"data":[{"embedding":[1]}],"usage":{"prompt_tokens":1,"total_tokens":1}}' })
      expect((await pair.ask({ input: 'x' }, '/v1/embeddings')).status).toBe(200)
      expect(await pair.view()).toMatchObject({ circuit: 'closed', failures_total: 0 })
    })

    it.each<[string, RecordedAnswer]>([
      ['an error document', { status: 200, body: '{"error":{"message":"x","code":500}}' }],
      ['a page of a proxy', { status: 200, headers: ['content-type', 'text/html'], body: '<html>x</html>' }],
      ['an error document for a stream', { status: 200, body: '{"error":{"message":"x","code":500}}' }],
    ])('O4: 200 with %s is a failure, and another engine serves', async (what, answer) => {
      pair.set(answer)
      expect(served(await many(8, { stream: what.endsWith('stream') }))).toBe(true)
      await expect.poll(async () => (await pair.view()).circuit).toBe('open')
    })

    it.each([
      ['S9c: named `error`', `event: error\ndata: {"error":{"message":"x","code":500}}\n\n`],
      [
        'S10: longer than 1 KiB',
        `data: {"error":{"message":"${'x'.repeat(1100)}","type":"InternalServerError","code":500}}\n\ndata: [DONE]\n\n`,
      ],
      [
        'S10: longer than a read',
        `data: {"error":{"message":"${'x'.repeat(40_000)}","type":"InternalServerError","code":500}}\n\n`,
      ],
      ['S10: flat', `data: {"object":"error","message":"x","type":"InternalServerError","code":500}\n\n`],
    ])(`on ${name}, %s as the first event is a failure, and another engine serves`, async (_, body) => {
      pair.set({ status: 200, headers: SSE, body })
      expect(served(await many(8, { stream: true }))).toBe(true)
      await expect.poll(async () => (await pair.view()).circuit).toBe('open')
    })

    it('an answer about the request goes to the client as it is, however long', async () => {
      const body = JSON.stringify({
        error: { message: `no: ${'y'.repeat(60_000)}`, type: 'BadRequestError', code: 400 },
      })
      pair.set({ status: 400, body })
      expect(await pair.askA()).toMatchObject({ status: 400, text: body })
      expect(await pair.view()).toMatchObject({ circuit: 'closed', failures_total: 0 })
    })
  })

  describe(`engines of different context, on ${name}`, () => {
    let pair: AnswersPair
    beforeAll(async () => {
      pair = await AnswersPair.open({
        runtime,
        type: 'vllm',
        a: { context_tokens: 1000 },
        pool: { stats_interval_ms: 1000 },
      })
      pair.b.routes['GET /v1/models'] = { body: { data: [{ id: 'm', owned_by: 'vllm', max_model_len: 8000 }] } }
    })
    afterAll(() => pair.close())
    const words = (count: number): Record<string, unknown> => ({
      messages: [{ role: 'user', content: 'word '.repeat(count) }],
    })

    it('a long prompt, and a short one with a large output limit, never visit the small one', async () => {
      pair.set('serves')
      for (let sent = 0; sent < 6; sent++) {
        expect((await pair.ask(words(3000))).text).toContain('"b"')
        expect((await pair.ask({ max_tokens: 2000 })).text).toContain('"b"')
      }
      expect(pair.a.posts).toHaveLength(0)
      for (let sent = 0; sent < 4; sent++) await pair.ask()
      expect(pair.a.posts.length).toBeGreaterThan(0)
    })

    it('a prompt that is too long for all gets the answer of the largest', async () => {
      // A Worker's object probes when its pool has traffic.
      await expect
        .poll(async () => (await pair.ask(), pair.b.requests.some(({ path }) => path === '/v1/models')), {
          timeout: 10_000,
        })
        .toBe(true)
      const tooLong = '{"error":{"message":"This model\'s maximum context length is 8000 tokens.","code":400}}'
      pair.set({ status: 500, body: '' })
      pair.setB({ status: 400, body: tooLong })
      for (let sent = 0; sent < 4; sent++)
        expect(await pair.ask(words(40_000))).toMatchObject({ status: 400, text: tooLong })
      expect(pair.a.posts).toHaveLength(0)
    })
  })

  describe(`an engine that finds a prompt too long, on ${name}`, () => {
    const tooLong = `{"error":{"message":"This model's maximum context length is 1000 tokens. However, you requested 1010.","type":"BadRequestError","param":"input_tokens","code":400}}`
    const open = async (both: object): Promise<AnswersPair> => {
      const pair = await AnswersPair.open({ runtime, type: 'vllm', a: { context_tokens: 1000 }, both })
      pair.set({ status: 400, body: tooLong })
      return pair
    }

    it('an engine that finds a prompt too long is no failure: an engine with a larger context serves, without retry budget', async () => {
      const pair = await open({ context_tokens: 8000 })
      expect(await pair.askA()).toMatchObject({ status: 200, text: expect.stringContaining('"b"') })
      expect(await pair.view()).toMatchObject({ circuit: 'closed', failures_total: 0 })
      pair.setB({ status: 500, body: '' })
      expect(await pair.askA()).toMatchObject({ status: 400, text: tooLong })
      await pair.close()
    })

    it('an engine that finds a prompt too long answers for itself if no engine is known to have a larger context', async () => {
      const pair = await open({})
      expect(await pair.askA()).toMatchObject({ status: 400, text: tooLong })
      expect(pair.b.posts).toHaveLength(0)
      await pair.close()
    })
  })

  describe(`an engine that lacks the model, on ${name}`, () => {
    const list = (card: object): Route => ({ body: { data: [{ owned_by: 'vllm', ...card }] } })

    it('an engine that lacks the model serves again once it has the model, and its context is read again', async () => {
      const pair = await AnswersPair.open({
        runtime,
        type: 'vllm',
        pool: { circuit: { failures: 1, open_ms: 600_000 }, stats_interval_ms: 1000 },
      })
      pair.a.routes['GET /v1/models'] = list({ id: 'other', max_model_len: 10 })
      pair.set(NO_MODEL)
      const seen = async () => {
        await pair.ask()
        const { circuit, context_tokens } = await pair.view()
        const isListRead = pair.a.requests.some(({ path }) => path === '/v1/models')
        return { circuit, context_tokens, isListRead }
      }
      await expect.poll(seen, { timeout: 10_000 }).toMatchObject({ circuit: 'open', isListRead: true })
      pair.a.routes['GET /v1/models'] = list({ id: 'm', max_model_len: 8000 })
      pair.set('serves')
      await expect.poll(seen, { timeout: 20_000 }).toMatchObject({ circuit: 'closed', context_tokens: 8000 })
      expect(pair.a.posts.length).toBeGreaterThan(0)
      await pair.close()
    })
  })

  describe(`one engine’s refusal of a prefill leg, on ${name}`, () => {
    let pair: AnswersPair
    let decode: FakeEngine
    beforeAll(async () => {
      decode = await openPlainEngine()
      pair = await AnswersPair.open({
        runtime,
        type: 'vllm',
        both: { role: 'prefill' },
        others: [{ id: 'd', url: decode.url, role: 'decode', type: 'vllm' }],
        pool: { split: { mode: 'always', connector: 'nixl' } },
      })
    })
    afterAll(async () => {
      await pair.close()
      await decode.close()
    })

    it(`one engine’s refusal of a prefill leg on ${name} reaches the client if it is about the request`, async () => {
      pair.set({ status: 400, body: '{"error":{"message":"Grammar error","type":"BadRequestError","code":400}}' })
      expect(await pair.askA()).toMatchObject({ status: 400 })
    })

    it.each<[string, RecordedAnswer, number]>([
      ['429', { status: 429, body: '{"error":"slow down"}' }, 0],
      [
        '503 of a full queue',
        { status: 503, body: '{"error":{"message":"The engine is currently busy","code":503}}' },
        0,
      ],
      ['404 for the model', NO_MODEL, 1],
      ['a missing route', { status: 404, body: '{"detail":"Not Found"}' }, 0],
    ])(`O12: a prefill engine’s %s on ${name} never reaches the client`, async (_, answer, failures) => {
      const prefilled = {
        kv_transfer_params: {
          do_remote_prefill: true,
          remote_engine_id: 'e',
          remote_block_ids: [1],
          remote_host: 'h',
          remote_port: 1,
        },
      }
      pair.set(answer)
      pair.setB({
        status: 200,
        body: JSON.stringify({ choices: [], usage: { prompt_tokens: 3, completion_tokens: 1 }, ...prefilled }),
      })
      decode.routes['POST *'] = chatOf('d')
      const before = (await pair.view()).failures_total
      const answers = await pair.askA()
      expect([answers.status, answers.text.includes('"d"')]).toEqual([200, true])
      await expect.poll(async () => (await pair.view()).failures_total - before).toBe(failures)
    })
  })
}
