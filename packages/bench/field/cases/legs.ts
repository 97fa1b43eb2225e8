/** Split requests: what the prefill leg gets, and what a refusal of one prefill engine means. */
import type { FakeAnswer } from '../../../../test/kit/fake-answer.ts'
import { eventually, expectEqual, expectTrue } from '../expectation.ts'
import type { FieldCase } from '../field-case.ts'
import type { PoolPlan } from '../pool-plan.ts'
import { answerOf, serves } from '../replies.ts'

const connectorOf = (type: string): string => (type === 'tensorrt-llm' ? 'response' : 'nixl')

const SPLIT: PoolPlan = {
  letters: ['p0', 'p1', 'd'],
  pool: (type) => ({ split: { mode: 'always', connector: connectorOf(type) } }),
  engine: (letter) => ({ role: letter === 'd' ? 'decode' : 'prefill' }),
}

const KV_TRANSFER = {
  kv_transfer_params: {
    do_remote_prefill: true,
    remote_engine_id: 'e',
    remote_block_ids: [1],
    remote_host: 'h',
    remote_port: 1,
  },
}

/** The answer of a prefill engine. */
const prefilled = (answer: string, transfer: object = KV_TRANSFER): FakeAnswer =>
  answerOf(200, JSON.stringify({ ...(JSON.parse(answer) as object), ...transfer }))

const tool = { name: 'f', description: 'f', parameters: { type: 'object', properties: {} } }
const schema = { type: 'object', properties: { a: { type: 'string' } } }
const jsonSchema = { type: 'json_schema', json_schema: { name: 's', schema } }

/** Fields that make an engine fail if it may only send one token. */
const FORCED: Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>> = {
  chat: [
    { tools: [{ type: 'function', function: tool }], tool_choice: 'required' },
    { tools: [{ type: 'function', function: tool }], tool_choice: { type: 'function', function: { name: 'f' } } },
    { response_format: jsonSchema },
    { structured_outputs: { json: schema } },
  ],
  completions: [{ response_format: jsonSchema }, { structured_outputs: { json: schema } }],
  responses: [
    { tools: [{ type: 'function', ...tool }], tool_choice: 'required' },
    { text: { format: { type: 'json_schema', name: 's', schema } } },
  ],
  messages: [
    { tools: [{ name: 'f', input_schema: schema }], tool_choice: { type: 'any' } },
    { tools: [{ name: 'f', input_schema: schema }], tool_choice: { type: 'tool', name: 'f' } },
  ],
  generate: [{ sampling_params: { max_tokens: 200, structured_outputs: { json: schema } } }],
}

const isForced = (text: string): boolean =>
  /"tool_choice":(?:"required"|\{"type":"(?:any|tool|function)")|"json_schema"|"structured_outputs"|"guided_json"/.test(
    text,
  )

const s3: FieldCase = {
  plan: SPLIT,
  async run({ pool, fixture, protocol }) {
    const prefill = ({ text }: { readonly text: string }): FakeAnswer =>
      isForced(text)
        ? answerOf(500, '{"error":{"message":"Invalid JSON: EOF while parsing","code":500}}')
        : prefilled(fixture.answer('p'))
    const before = [await pool.failures('p0'), await pool.failures('p1')]
    for (const more of FORCED[protocol]!) {
      pool.script({ p0: prefill, p1: prefill, d: serves(fixture, 'from d') })
      const { status, text } = await pool.ask(fixture, { more, limitTokens: 200 })
      expectEqual(`with ${JSON.stringify(more)}`, [status, text], [200, fixture.answer('from d')])
      expectEqual('prefill legs', pool.posts('p0').length + pool.posts('p1').length, 1)
    }
    expectEqual('failures', [await pool.failures('p0'), await pool.failures('p1')], before)
  },
}

const REFUSALS: readonly (readonly [what: string, answer: FakeAnswer, failures: number])[] = [
  ['429', answerOf(429, '{"error":"slow down"}'), 0],
  [
    'a full queue',
    answerOf(503, '{"error":{"message":"The engine is currently busy","code":503}}', { 'retry-after': '1' }),
    0,
  ],
  ['a missing route', answerOf(404, '{"detail":"Not Found"}'), 0],
  ['500', answerOf(500, '{"error":{"message":"x","code":500}}'), 1],
  ['an error with 200', answerOf(200, '{"error":{"message":"x","type":"InternalServerError","code":500}}'), 1],
]

const o12: FieldCase = {
  plan: SPLIT,
  ownPool: true,
  async run({ pool, fixture, engine }) {
    const lacking = answerOf(
      404,
      `{"error":{"message":"The model \`${pool.model}\` does not exist.","type":"NotFoundError","param":"model","code":404}}`,
    )
    const refusals = engine === 'tensorrt-llm' ? REFUSALS : [...REFUSALS, ['404 for the model', lacking, 1] as const]
    for (const [what, answer, failures] of refusals) {
      const total = async (): Promise<number> => (await pool.failures('p0')) + (await pool.failures('p1'))
      const before = await total()
      let legs = 0
      const prefill = (): FakeAnswer => (++legs === 1 ? answer : prefilled(fixture.answer('p')))
      pool.script({ p0: prefill, p1: prefill, d: serves(fixture, 'from d') })
      // A cold prompt, so that the other engine could serve it as well.
      const { status, text } = await pool.ask(fixture, { prompt: `about ${what}` })
      expectEqual(what, [status, text], [200, fixture.answer('from d')])
      expectTrue(`${what}: no engine had the leg`, legs > 0)
      await eventually(`${what}: failures`, async () => (await total()) - before, failures)
    }
  },
}

/** Without a KV transfer each request computes its prompt twice. */
const s30: FieldCase = {
  plan: SPLIT,
  ownPool: true,
  async run({ pool, fixture }) {
    const empty = prefilled(fixture.answer('p'), {})
    pool.script({ p0: empty, p1: empty, d: serves(fixture, 'from d') })
    for (let sent = 0; sent < 12; sent++) expectEqual('status', (await pool.ask(fixture)).status, 200)
    const legs = pool.posts('p0').length + pool.posts('p1').length
    expectTrue(`${legs} prefill legs without a KV transfer for 12 requests`, legs <= 6)
  },
}

export const legs: Readonly<Record<string, FieldCase>> = { S3: s3, O12: o12, S30: s30 }
