/** What engines receive and what clients see of models: fields, ids, names and token ids. */
import { ADDABLE_FIELDS, type EngineTypeName } from '../../../../src/engines/engine-type.ts'
import { engineTypeOf } from '../../../../src/engines/engine-registry.ts'
import { contextRoutes } from '../context-routes.ts'
import { eventually, expectEqual, expectTrue } from '../expectation.ts'
import type { FieldCase } from '../field-case.ts'
import { FIELD_KEY } from '../credentials.ts'
import { serves } from '../replies.ts'

const PRIVATE = { 'x-override-priority': '-9', 'x-vllm-priority': '-9', 'x-data-parallel-rank': '1' }

const s19: FieldCase = {
  plan: { letters: ['a'] },
  async run({ pool, fixture, engine }) {
    const allowed = engine === 'external' ? [] : engineTypeOf(engine as EngineTypeName).addable
    for (const stream of fixture.stream === null ? [false] : [false, true]) {
      pool.script({ a: serves(fixture, 'from a') })
      expectEqual('status', (await pool.ask(fixture, { stream }, { headers: PRIVATE })).status, 200)
      const [request] = pool.posts('a')
      const named = Object.keys(request!.headers).filter((name) => /rank|override|priority/.test(name))
      expectEqual('private headers', named, [])
      if (!request!.headers['content-type']!.includes('json')) continue
      const sent = fixture.fields({ model: pool.model, stream })
      const added = Object.keys(request!.json).filter((name) => !(name in sent))
      const wrong = added.filter((name) => !(allowed as readonly string[]).includes(name))
      expectEqual(`added fields of ${ADDABLE_FIELDS.length} known ones`, wrong, [])
      expectEqual(
        'the other fields',
        Object.fromEntries(Object.keys(sent).map((name) => [name, request!.json[name]])),
        sent,
      )
    }
  },
}

const aliasOf = (model: string): string => `alias-of-${model}`

const s24: FieldCase = {
  plan: { letters: ['a'], pool: (_type, model) => ({ aliases: [aliasOf(model)], response_model: 'requested' }) },
  ownPool: true,
  config: { limits: { response_ids: 10_001 } },
  async run({ pool, fixture }) {
    const named = JSON.stringify({ ...(JSON.parse(fixture.answer('from a')) as object), model: pool.model })
    pool.script({ a: { headers: { 'content-type': 'application/json' }, body: named } })
    const { text } = await pool.ask(fixture, { model: aliasOf(pool.model) })
    expectEqual('model of the answer', (JSON.parse(text) as { model: string }).model, aliasOf(pool.model))
  },
}

const s25: FieldCase = {
  plan: {
    letters: ['a', 'b'],
    pool: () => ({ stats_interval_ms: 300 }),
    routes: (letter, type, model) => contextRoutes(type, model, letter === 'a' ? 1_000 : 8_000),
  },
  ownPool: true,
  async run({ pool, fixture }) {
    pool.script({ a: serves(fixture, 'from a'), b: serves(fixture, 'from b') })
    await eventually(
      'max_model_len in /v1/models',
      async () => {
        await pool.ask(fixture)
        const response = await fetch(`${pool.url}/v1/models`, { headers: { authorization: `Bearer ${FIELD_KEY}` } })
        const { data } = (await response.json()) as { data: { id: string; max_model_len?: number }[] }
        return data.find(({ id }) => id === pool.model)?.max_model_len
      },
      8_000,
    )
  },
}

const CONCURRENT = 5

const s26: FieldCase = {
  plan: { letters: ['a'] },
  async run({ pool, fixture }) {
    const gate = Promise.withResolvers<void>()
    const answer = serves(fixture, 'from a')
    pool.script({ a: async (request) => (await gate.promise, typeof answer === 'function' ? answer(request) : answer) })
    const pending = Array.from({ length: CONCURRENT }, () =>
      pool.ask(fixture, {}, { headers: { 'x-request-id': 'job-1' } }),
    )
    await eventually('requests at the engine', () => pool.posts('a').length, CONCURRENT)
    const ids = pool.posts('a').map(({ headers }) => headers['x-request-id'])
    gate.resolve()
    const answers = await Promise.all(pending)
    expectEqual('different ids', new Set(ids).size, CONCURRENT)
    expectTrue(
      `ids without the client's: ${ids.join(', ')}`,
      ids.every((id) => id!.includes('job-1')),
    )
    expectEqual(
      'ids of the answers',
      answers.map(({ headers }) => headers.get('x-request-id')?.includes('job-1')),
      answers.map(() => true),
    )
  },
}

const s27: FieldCase = {
  plan: { letters: ['a'] },
  async run({ pool, fixture }) {
    pool.script({ a: serves(fixture, 'from a') })
    expectEqual('status', (await pool.ask(fixture, { prompt: 'ids' })).status, 200)
    expectEqual(
      'token ids',
      pool.posts('a')[0]!.json['token_ids'],
      fixture.fields({ model: pool.model, prompt: 'ids' })['token_ids'],
    )
  },
}

const CONVERSATIONS = 6

/** Claude Code's first system block differs with each request; the conversation is behind it. */
const s2: FieldCase = {
  plan: { letters: ['a', 'b', 'c', 'd'], pool: () => ({ policy: 'prefix' }) },
  ownPool: true,
  async run({ pool, fixture }) {
    const answers = Object.fromEntries([...pool.engines.keys()].map((letter) => [letter, serves(fixture, letter)]))
    const ask = async (conversation: number, turn: number): Promise<string> => {
      pool.script(answers)
      const system = [
        {
          type: 'text',
          text: `x-anthropic-billing-header: cc_version=2.1.100.7b4; cc_entrypoint=cli; cch=${conversation}${turn};`,
        },
        { type: 'text', text: `S${conversation} ${`rule ${conversation} `.repeat(3_000)}` },
      ]
      const messages = Array.from({ length: turn + 1 }, (_, at) => ({
        role: at % 2 === 0 ? 'user' : 'assistant',
        content: `turn ${at}`,
      }))
      expectEqual('status', (await pool.ask(fixture, { stream: true, more: { system, messages } })).status, 200)
      return [...pool.engines.keys()].find((letter) => pool.posts(letter).length > 0)!
    }
    const engines: string[] = []
    for (let at = 0; at < CONVERSATIONS; at++) engines.push(await ask(at, 0))
    let kept = 0
    for (const turn of [1, 2, 3])
      for (let at = 0; at < CONVERSATIONS; at++) if ((await ask(at, turn)) === engines[at]) kept += 1
    expectEqual('turns at the engine of their conversation', kept, 3 * CONVERSATIONS)
  },
}

export const forwarding: Readonly<Record<string, FieldCase>> = {
  S2: s2,
  S19: s19,
  S24: s24,
  S25: s25,
  S26: s26,
  S27: s27,
}
