/** Answers of engines and proxies that are about the engine: busy, lacking the model, or broken. */
import type { FakeAnswer } from '../../../../test/kit/fake-answer.ts'
import { contextRoutes } from '../context-routes.ts'
import { eventually, expectEqual, expectTrue } from '../expectation.ts'
import type { CellRun, FieldCase } from '../field-case.ts'
import { PAIR, type PoolPlan } from '../pool-plan.ts'
import { answersOf, isStream, recordedAnswer, type RecordedAnswer } from '../recorded-answers.ts'
import { answerOf, serves } from '../replies.ts'

/** Three failures open a circuit. */
const BREAKER: PoolPlan = { letters: ['a', 'b'], pool: () => ({ circuit: { failures: 3, open_ms: 600_000 } }) }

const isError = (status: number): boolean => status >= 400

/** Answers of the type that say that it is full for a moment. 429 is one of every type but a provider's. */
function busyReplies(type: string, model: string): FakeAnswer[] {
  const recorded = answersOf(type).filter(({ means }) => means.kind === 'busy' && means.lasts === 'moment')
  return [
    ...(type === 'external' ? [] : [answerOf(429, '{"error":"slow down"}', { 'retry-after': '1' })]),
    ...recorded.map((answer) => recordedAnswer(answer, model)),
  ]
}

const isEvents = ({ headers = {} }: FakeAnswer): boolean => headers['content-type']?.includes('event-stream') === true

const s4: FieldCase = {
  plan: BREAKER,
  ownPool: true,
  async run({ pool, fixture, engine }) {
    for (const busy of busyReplies(engine, pool.model)) {
      if (isEvents(busy) && fixture.stream === null) continue
      pool.script({ a: busy, b: serves(fixture, 'from b') })
      for (let sent = 0; sent < 5; sent++) {
        const { status, text } = await pool.ask(fixture, { stream: isEvents(busy) })
        expectEqual(`status with ${JSON.stringify(busy.body)}`, status, 200)
        expectTrue(
          `answer of ${text}`,
          isFrom(
            fixture.stream !== null && isEvents(busy) ? fixture.stream.delta('from b') : fixture.answer('from b'),
            text,
          ),
        )
      }
    }
    const { circuit, failures_total: failures } = await pool.view('a')
    expectEqual('circuit and failures', [circuit, failures], ['closed', 0])
    pool.script({ a: serves(fixture, 'from a') })
    await pool.askAt('a', fixture)
  },
}

const isFrom = (part: string, text: string): boolean => text.includes(part)

/** The recorded 404 of the type for the model that was asked for. */
const lackingAnswer = (type: string, model: string): FakeAnswer =>
  recordedAnswer(
    answersOf(type === 'unknown' ? 'vllm' : type).find(
      ({ means, status }) => means.kind === 'lacks' && means.what === 'model' && isError(status),
    )!,
    model,
  )

const s7: FieldCase = {
  plan: BREAKER,
  ownPool: true,
  async run({ pool, fixture, engine }) {
    pool.script({ a: lackingAnswer(engine, pool.model), b: serves(fixture, 'from b') })
    for (let sent = 0; sent < 10; sent++) expectEqual('status', (await pool.ask(fixture)).status, 200)
    await eventually('circuit', async () => (await pool.view('a')).circuit, 'open')
    // A failure is counted after its request has moved, so one more may follow.
    expectTrue(`${pool.posts('a').length} requests at a`, pool.posts('a').length <= 4)
  },
}

const e13: FieldCase = {
  plan: PAIR,
  ownPool: true,
  async run({ pool, fixture, engine }) {
    const lacking = lackingAnswer(engine, pool.model)
    pool.script({ a: lacking, b: serves(fixture, 'from b') })
    expectEqual('one of two lacks it', (await pool.askAt('a', fixture)).status, 200)
    pool.script({ a: lacking, b: lacking })
    const all = await pool.ask(fixture)
    expectEqual(
      'both lack it',
      [all.status, all.text.includes('model_not_loaded') || fixture.protocol === 'messages'],
      [503, true],
    )
    const unknown = await pool.ask(fixture, { model: 'no-such-model' })
    expectEqual('an unknown name', unknown.status, 404)
  },
}

/** Rows that depend on more than the answer: an adapter, or a name that the client chose. */
const isPlain = ({ sent = {}, name }: RecordedAnswer): boolean =>
  sent.adapter == null && sent.model !== null && sent.path === undefined && !name.includes('another name')

const e10: FieldCase = {
  plan: { ...PAIR, pool: () => ({ stats_interval_ms: 500 }) },
  ownPool: true,
  async run(cell) {
    for (const row of answersOf(cell.engine).filter(isPlain)) await expectMeaning(cell, row)
  },
}

async function expectMeaning({ pool, fixture }: CellRun, row: RecordedAnswer): Promise<void> {
  const { name, means, status } = row
  const stream = isStream(row)
  // Answers that pass are the matter of other cases.
  if (means.kind === 'ok' || (stream && (fixture.stream === null || means.kind === 'client'))) return
  // The answers of a success are read only if they should be JSON.
  if (!stream && !isError(status) && status < 300 && fixture.contentType !== 'application/json') return
  const before = await pool.failures('a')
  const isForwarded = ['client', 'lacks_route'].includes(means.kind)
  pool.script({
    a: recordedAnswer(row, pool.model),
    b: means.kind === 'lacks_route' ? recordedAnswer(row, pool.model) : serves(fixture, 'from b'),
  })
  // On a busy machine, a late answer to a probe makes it unhealthy for a moment, and nobody would be left to serve.
  await eventually(`${name}: health of the other engine`, async () => (await pool.view('b'))['healthy'] !== false, true)
  const answer = await pool.askAt('a', fixture, { stream })
  expectEqual(`${name}: status`, answer.status, isForwarded ? status : 200)
  const failures = ['lacks', 'broken'].includes(means.kind) ? 1 : 0
  await eventually(`${name}: failures`, async () => (await pool.failures('a')) - before, failures)
  if (means.lasts !== 'until_healthy') return
  pool.script({ a: serves(fixture, 'from a'), b: serves(fixture, 'from b') })
  await eventually(`${name}: it is back`, async () => (await pool.ask(fixture), (await pool.view('a')).asleep), false)
}

const e11: FieldCase = {
  plan: {
    letters: ['a', 'b'],
    pool: () => ({ queue: { max_requests: 8, max_wait_ms: 8_000 } }),
    engine: () => ({ max_in_flight: 1 }),
  },
  ownPool: true,
  async run({ pool, fixture }) {
    pool.script({ a: answerOf(429, '{}', { 'retry-after': '7' }), b: answerOf(429, '{}', { 'retry-after': '5' }) })
    const full = await pool.ask(fixture)
    expectEqual('all are busy', [full.status, full.headers.get('retry-after')], [429, '5'])
    const failures = [await pool.failures('a'), await pool.failures('b')]
    expectEqual('failures', failures, [0, 0])
    const gate = Promise.withResolvers<void>()
    const order: string[] = []
    const held: FakeAnswer = {
      headers: { 'content-type': fixture.contentType },
      pieces: [gate.promise, fixture.answer('held')],
    }
    pool.script({ a: held, b: held })
    const first = [pool.ask(fixture), pool.ask(fixture)]
    await eventually('places', () => pool.posts('a').length + pool.posts('b').length, 2)
    const waiting: Promise<unknown>[] = []
    for (const name of ['one', 'two', 'three']) {
      waiting.push(pool.ask(fixture, { prompt: name }).then(() => order.push(name)))
      await eventually(
        `${name} waits`,
        async () => waitingIn(await pool.admin('/v1/firstlight/fleet'), pool.model),
        waiting.length,
      )
    }
    pool.script({ a: serves(fixture, 'from a'), b: serves(fixture, 'from b') })
    gate.resolve()
    await Promise.all([...first, ...waiting])
    const requests = [...pool.posts('a'), ...pool.posts('b')].length
    expectEqual('requests of the queue', [requests, order.length], [3, 3])
  },
}

interface Fleet {
  readonly pools: readonly { readonly model: string; readonly queue?: { readonly requests: number } | null }[]
}

const waitingIn = (fleet: unknown, model: string): number =>
  (fleet as Fleet).pools.find((one) => one.model === model)?.queue?.requests ?? 0

/** Ranks as engines with one address. SGLang's queue is one rank's, vLLM's limit one server's. */
const e12: FieldCase = {
  plan: {
    letters: ['r0', 'r1', 'other'],
    engine: (letter, _type, urls) =>
      letter === 'other' ? {} : { url: urls[0], headers: { 'x-data-parallel-rank': letter.slice(1) } },
  },
  ownPool: true,
  async run({ pool, fixture, engine }) {
    const full = answersOf(engine).find(({ means }) => means.kind === 'busy' && means.lasts === 'moment')!
    const ranks = new Set<string>()
    const first: { rank?: string } = {}
    pool.script({
      other: serves(fixture, 'from other'),
      r0: ({ headers }) => {
        const rank = headers['x-data-parallel-rank']!
        ranks.add(rank)
        first.rank ??= rank
        return first.rank === rank
          ? recordedAnswer(full, pool.model)
          : (serves(fixture, 'from rank') as () => FakeAnswer)()
      },
    })
    for (let sent = 0; sent < 6 && ranks.size === 0; sent++) {
      const { status, text } = await pool.ask(fixture)
      expectEqual('status', status, 200)
      if (ranks.size === 0) continue
      // The order of the round robin has the other rank of the server, then the other server.
      if (engine === 'vllm')
        expectEqual('ranks asked of a full server', [ranks.size, text.includes('from other')], [1, true])
    }
    expectTrue('no rank was asked', ranks.size > 0)
  },
}

const e14: FieldCase = {
  plan: {
    letters: ['a', 'b'],
    routes: (letter, type, model) => (letter === 'b' ? contextRoutes(type, model, 8_000) : {}),
    pool: () => ({ stats_interval_ms: 300 }),
    engine: (letter) => (letter === 'a' ? { context_tokens: 1000 } : {}),
  },
  ownPool: true,
  async run({ pool, fixture }) {
    pool.script({ a: serves(fixture, 'from a'), b: serves(fixture, 'from b') })
    const long = 'word '.repeat(fixture.protocol === 'generate' ? 500 : 3_000)
    for (let sent = 0; sent < 4; sent++) {
      await pool.ask(fixture, { prompt: long })
      await pool.ask(fixture, { limitTokens: 2_000 })
    }
    expectEqual('requests at the small engine', pool.posts('a').length, 0)
    const tooLong =
      '{"error":{"message":"This model\'s maximum context length is 8000 tokens.","type":"BadRequestError","code":400}}'
    pool.script({ a: answerOf(500, ''), b: answerOf(400, tooLong) })
    const { status, text } = await pool.ask(fixture, { prompt: long.repeat(12) })
    expectEqual('an answer of the largest', [status, text], [400, tooLong])
    expectEqual('requests at the small engine', pool.posts('a').length, 0)
  },
}

export const engineAnswers: Readonly<Record<string, FieldCase>> = {
  S4: s4,
  S7: s7,
  E10: e10,
  E11: e11,
  E12: e12,
  E13: e13,
  E14: e14,
}
