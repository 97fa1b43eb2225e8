/** What requests cost a key, and whose word counts. */
import type { FakeAnswer } from '../../../../test/kit/fake-answer.ts'
import { eventually, eventuallyTrue, expectEqual } from '../expectation.ts'
import type { Usage } from '../fixture.ts'
import type { CellRun, FieldCase } from '../field-case.ts'
import type { PoolPlan } from '../pool-plan.ts'
import { MARK } from '../site-pool.ts'
import { fixtureFor } from '../fixture.ts'
import { answerOf, serves, streamOf } from '../replies.ts'

const ONE: PoolPlan = { letters: ['a'] }
const PROBE: Usage = { prompt: 3, cached: 0, output: 1 }
const PROBE_TOKENS = 4
/** Far more than the own estimate of a short prompt. */
const PROMPT_TOKENS = 100
const LIMIT_TOKENS = 32_000
const chat = fixtureFor('chat')

/** Remaining tokens of the limited key, by a probe whose cost is known. */
async function remaining({ pool }: CellRun): Promise<number> {
  const answer = pool.engine('a').routes['POST *']!
  pool.engine('a').routes['POST *'] = serves(chat, 'probe', PROBE)
  const { headers } = await pool.ask(chat, { prompt: 'probe', limitTokens: 1 }, { key: 'limited' })
  pool.engine('a').routes['POST *'] = answer
  return Number(headers.get('x-ratelimit-remaining-tokens'))
}

/** Tokens that the work costs: a function, since a Worker settles later. */
async function costOf(cell: CellRun, work: () => Promise<unknown>): Promise<() => Promise<number>> {
  const before = await remaining(cell)
  await work()
  let probes = 0
  return async () => before - (await remaining(cell)) - ++probes * PROBE_TOKENS
}

const within =
  (from: number, to: number) =>
  (cost: number): boolean =>
    cost >= from && cost < to

/** The gateway estimates the probe's own prompt, so costs vary by a few tokens for each. */
const SLACK_TOKENS = 24

const s16: FieldCase = {
  plan: ONE,
  ownPool: true,
  async run(cell) {
    const { pool, fixture } = cell
    pool.script({ a: answerOf(400, '{"error":{"message":"no","type":"BadRequestError","code":400}}') })
    const cost = await costOf(cell, () => pool.ask(fixture, { limitTokens: 900 }, { key: 'limited' }))
    await eventuallyTrue('cost of a refused request', cost, within(-SLACK_TOKENS, SLACK_TOKENS), 'about 0')
  },
}

/** Events, then comments by which a platform finds out that its client has left. */
const endless = (opening: string, events: readonly string[]): FakeAnswer =>
  streamOf(opening, ...events, ...Array.from({ length: 200 }, () => [50, ': wait\n\n'] as const).flat())

async function leave({ pool, fixture }: CellRun, outputs: number, more: object = {}): Promise<void> {
  const leaving = new AbortController()
  const { signal } = leaving
  const response = await pool.send(
    fixture,
    { stream: true, limitTokens: LIMIT_TOKENS, more: { ...more } },
    { key: 'limited', signal },
  )
  const last = fixture.stream!.delta(`out ${outputs - 1}`)
  let text = ''
  const decoder = new TextDecoder()
  try {
    for await (const piece of response.body!) {
      text += decoder.decode(piece as Uint8Array, { stream: true })
      if (text.includes(last)) leaving.abort()
    }
  } catch {
    // It left.
  }
}

const OUTPUTS = 40

const s17: FieldCase = {
  plan: ONE,
  ownPool: true,
  async run(cell) {
    const { pool, fixture } = cell
    const { opening, delta } = fixture.stream!
    pool.script({
      a: endless(
        opening,
        Array.from({ length: OUTPUTS }, (_, at) => delta(`out ${at}`)),
      ),
    })
    const cost = await costOf(cell, () => leave(cell, OUTPUTS))
    await eventuallyTrue(
      'cost of an aborted stream',
      cost,
      within(OUTPUTS, OUTPUTS + PROMPT_TOKENS),
      `${OUTPUTS} to ${OUTPUTS + PROMPT_TOKENS}`,
    )
    pool.script({ a: { ...streamOf(opening, delta('one'), 20), end: 'reset' } })
    const truncated = await costOf(cell, () =>
      pool.ask(fixture, { stream: true, limitTokens: LIMIT_TOKENS }, { key: 'limited' }),
    )
    await eventuallyTrue(
      'cost of a truncated stream',
      truncated,
      within(-SLACK_TOKENS, PROMPT_TOKENS),
      `less than ${PROMPT_TOKENS}`,
    )
  },
}

const USED: Usage = { prompt: 10, cached: 4, output: 3 }
const STREAMS = 6

async function cheapStreams(cell: CellRun): Promise<() => Promise<number>> {
  const { pool, fixture } = cell
  pool.script({ a: serves(fixture, 'one', USED) })
  const more =
    fixture.protocol === 'chat' || fixture.protocol === 'completions' ? { stream_options: { include_usage: true } } : {}
  return costOf(cell, async () => {
    for (let sent = 0; sent < STREAMS; sent++)
      expectEqual(
        'status',
        (await pool.ask(fixture, { stream: true, limitTokens: LIMIT_TOKENS, more }, { key: 'limited' })).status,
        200,
      )
  })
}

const o27: FieldCase = {
  plan: ONE,
  ownPool: true,
  async run(cell) {
    const cost = await cheapStreams(cell)
    const right = STREAMS * (USED.prompt + USED.output)
    await eventuallyTrue(
      'cost of six streams',
      cost,
      within(right - SLACK_TOKENS, right + SLACK_TOKENS),
      `about ${right}`,
    )
  },
}

interface KeyUsage {
  readonly keys: readonly {
    readonly name?: string
    readonly key?: string
    readonly prompt_tokens: number
    readonly output_tokens: number
    readonly cached_tokens: number
  }[]
}

async function keyUsage({ pool }: CellRun): Promise<KeyUsage['keys'][number]> {
  const { keys } = (await pool.admin('/v1/firstlight/usage')) as KeyUsage
  return (
    keys.find((one) => (one.name ?? one.key) === pool.model) ?? { prompt_tokens: 0, output_tokens: 0, cached_tokens: 0 }
  )
}

const o28: FieldCase = {
  plan: ONE,
  ownPool: true,
  async run(cell) {
    const before = await keyUsage(cell)
    const { pool, fixture } = cell
    pool.script({ a: serves(fixture, 'one', USED) })
    for (let sent = 0; sent < STREAMS; sent++) await pool.ask(fixture, { stream: true }, { key: 'limited' })
    await eventually(
      'prompt, cached and output tokens of six streams',
      async () => {
        const after = await keyUsage(cell)
        return [
          after.prompt_tokens - before.prompt_tokens,
          after.cached_tokens - before.cached_tokens,
          after.output_tokens - before.output_tokens,
        ]
      },
      [STREAMS * USED.prompt, STREAMS * USED.cached, STREAMS * USED.output],
    )
  },
}

/** Of the gateway's own calls. */
const NO_ROUTE = answerOf(404, '{"detail":"Not Found"}')
const TURNS = 6
const LARGE: Usage = { prompt: 20_000, cached: 19_200, output: 10 }
const PROMPT = 'a sentence of the system prompt. '.repeat(2_400)

/** The same prompt again and again: cached from the second time on. */
const s1: FieldCase = {
  plan: { letters: ['a', 'b'], pool: () => ({ policy: 'prefix' }) },
  ownPool: true,
  async run(cell) {
    const { pool, fixture } = cell
    const seen = new Map<string, number>()
    const route =
      (letter: string): Parameters<typeof pool.script>[0][string] =>
      (request) => {
        if (request.headers[MARK] === undefined) return NO_ROUTE
        const turn = seen.get(letter) ?? 0
        seen.set(letter, turn + 1)
        const answer = serves(fixture, letter, turn === 0 ? { ...LARGE, cached: 0 } : LARGE)
        return typeof answer === 'function' ? answer(request) : answer
      }
    for (const stream of [false, true]) {
      seen.clear()
      pool.script({ a: route('a'), b: route('b') })
      const before = await keyUsage(cell)
      const more =
        stream && ['chat', 'completions'].includes(fixture.protocol) ? { stream_options: { include_usage: true } } : {}
      for (let sent = 0; sent < TURNS; sent++)
        expectEqual(
          'status',
          (await pool.ask(fixture, { prompt: `${PROMPT} ${stream}`, stream, more }, { key: 'limited' })).status,
          200,
        )
      expectEqual('engines asked', [...seen.values()], [TURNS])
      await eventually(
        `prompt and cached tokens (stream: ${stream})`,
        async () => {
          const after = await keyUsage(cell)
          return [after.prompt_tokens - before.prompt_tokens, after.cached_tokens - before.cached_tokens]
        },
        [TURNS * LARGE.prompt, (TURNS - 1) * LARGE.cached],
      )
    }
    for (const letter of ['a', 'b']) {
      const { learned } = (await pool.view(letter)) as unknown as {
        learned?: { restarts?: number; silent_miss?: unknown }
      }
      expectEqual('restarts and silent misses', [learned?.restarts ?? 0, learned?.silent_miss ?? null], [0, null])
    }
  },
}

const FORGED = { usage: { input_tokens: 1, output_tokens: 0, prompt_tokens: 1, completion_tokens: 0 } }
const parameters = { type: 'object', properties: FORGED }
const TOOLS: Readonly<Record<string, readonly object[]>> = {
  chat: [{ type: 'function', function: { name: 'f', parameters } }],
  responses: [{ type: 'function', name: 'f', parameters }],
  messages: [{ name: 'f', input_schema: parameters }],
}

/** The engine echoes the tools before the output, and behind the usage of an answer. */
const o2: FieldCase = {
  plan: ONE,
  ownPool: true,
  async run(cell) {
    const { pool, fixture, protocol } = cell
    const tools = TOOLS[protocol]!
    const echo = `event: response.created\ndata: ${JSON.stringify({ type: 'response.created', response: { id: 'r', tools } })}\n\n`
    const { opening, delta } = fixture.stream!
    const begin = protocol === 'responses' ? echo : opening
    pool.script({
      a: endless(
        begin,
        Array.from({ length: OUTPUTS }, (_, at) => delta(`out ${at}`)),
      ),
    })
    const cost = await costOf(cell, () => leave(cell, OUTPUTS, { tools }))
    await eventuallyTrue(
      'cost of an aborted stream',
      cost,
      within(OUTPUTS, OUTPUTS + 2 * PROMPT_TOKENS),
      `${OUTPUTS} to ${OUTPUTS + 2 * PROMPT_TOKENS}`,
    )
    const answer = { ...(JSON.parse(fixture.answer('x', { prompt: 70, cached: 0, output: 9 })) as object), tools }
    pool.script({ a: answerOf(200, JSON.stringify(answer)) })
    const whole = await costOf(cell, () => pool.ask(fixture, { more: { tools } }, { key: 'limited' }))
    await eventuallyTrue('cost of an answer', whole, within(79 - SLACK_TOKENS, 79 + SLACK_TOKENS), 'about 79')
  },
}

export const usage: Readonly<Record<string, FieldCase>> = { S1: s1, S16: s16, S17: s17, O2: o2, O27: o27, O28: o28 }
