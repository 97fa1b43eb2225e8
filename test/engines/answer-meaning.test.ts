import { describe, expect, it } from 'vitest'
import type { AnswerMeaning } from '../../src/engines/answer-meaning.ts'
import { ENGINE_TYPES, engineTypeOf } from '../../src/engines/engine-registry.ts'
import type { EngineTypeName } from '../../src/engines/engine-type.ts'
import { errorOf } from '../../src/engines/error-body.ts'
import busyVectors from '../vectors/busy.json' with { type: 'json' }
import answerVectors from '../vectors/engine-answers.json' with { type: 'json' }
import errorVectors from '../vectors/errors.json' with { type: 'json' }

const SENT = { path: '/v1/chat/completions', model: 'm' }
const JSON_HEADERS = ['content-type', 'application/json']

type Row = (typeof answerVectors.answers)[number] & {
  readonly headers?: readonly string[]
  readonly sent?: { readonly model: string; readonly adapter: string }
}
const rows: readonly Row[] = answerVectors.answers as readonly Row[]
const judge = (kind: EngineTypeName, row: Row): AnswerMeaning =>
  engineTypeOf(kind).answerOf(
    { status: row.status, headers: row.headers ?? JSON_HEADERS, body: row.body },
    { ...SENT, ...row.sent },
  )

/** The recorded meaning; only answers with `retry-after` have a time. */
const expected = (row: Row): object => (row.means.kind === 'busy' ? { retryAfterS: null, ...row.means } : row.means)

describe('the meaning of a recorded answer', () => {
  it.each(rows.map((row) => [row.type, row.name, row] as const))(
    'the meaning of a recorded answer of %s: %s',
    (type, _, row) => {
      expect(judge(type as EngineTypeName, row)).toEqual(expected(row))
    },
  )

  it('the meaning of a recorded answer is the same if the type of an engine is not known', () => {
    const engines = rows.filter(({ type }) => !['firstlight', 'external', 'unknown'].includes(type))
    expect(engines.length).toBeGreaterThan(60)
    for (const row of engines) expect([row.name, judge('unknown', row)]).toEqual([row.name, expected(row)])
  })

  it('the meaning of a recorded answer of a proxy is the same for every type of engine behind it', () => {
    const proxies = rows.filter(({ type, status }) => type === 'unknown' && status !== 429)
    const kinds = ENGINE_TYPES.map(({ name }) => name)
    for (const kind of kinds)
      for (const row of proxies) {
        // A gateway's 503 is never counted against it.
        if (kind === 'firstlight' && row.status === 503) continue
        expect([kind, row.name, judge(kind, row)]).toEqual([kind, row.name, expected(row)])
      }
  })

  it.each(['busy', 'lacks', 'lacks_route', 'client', 'broken', 'ok'])('%s occurs', (kind) => {
    expect(rows.some(({ means }) => means.kind === kind)).toBe(true)
  })
})

describe('an answer', () => {
  it('an answer with 529 is that of a full server, whatever its text is', () => {
    for (const { name: kind } of ENGINE_TYPES)
      expect([kind, engineTypeOf(kind).answerOf({ status: 529, headers: [], body: 'later' }, SENT)]).toMatchObject([
        kind,
        { kind: 'busy', lasts: 'moment' },
      ])
  })

  const { answerOf } = engineTypeOf('vllm')
  const event = (text: string): AnswerMeaning =>
    answerOf({ status: 200, headers: ['content-type', 'text/event-stream'], body: text }, SENT)
  const busy = '{"error":{"message":"The engine is currently busy and cannot accept new requests.","code":503}}'

  it('an answer may be given as the data of an event that the protocol has read', () => {
    expect(event(busy)).toMatchObject({ kind: 'busy' })
  })

  it('an answer may be cut off in the middle of its message', () => {
    const long = `{"error":{"code":503,"message":"The engine is currently busy and ${'x'.repeat(20_000)}`
    expect(event(`data: ${long.slice(0, 16_000)}`)).toMatchObject({ kind: 'busy' })
    expect(event('data: {"error":{"message":"a \\"quoted\\" text')).toEqual({ kind: 'broken', failure: 'status_5xx' })
  })

  it('an answer with an event over several lines is read as one document', () => {
    expect(event('data: {"error":\ndata: {"message":"x","code":400}}\n\n')).toEqual({ kind: 'client', tooLong: null })
  })

  it('an answer is no error because a later event is one, or because its text looks like one', () => {
    expect(event(`data: {"choices":[]}\n\ndata: ${busy}\n\n`)).toEqual({ kind: 'ok' })
    expect(event('data: {"choices":[{"text":"currently busy"}]}\n\n')).toEqual({ kind: 'ok' })
    expect(event(': waiting\n\n')).toEqual({ kind: 'ok' })
  })

  it('an answer names nothing missing if the request names no model', () => {
    const body =
      '{"error":{"message":"The model `m` does not exist.","type":"NotFoundError","param":"model","code":404}}'
    expect(answerOf({ status: 404, headers: [], body }, { path: '/v1/x', model: null })).toMatchObject({
      kind: 'client',
    })
  })

  it('an answer that quotes the client’s text is about the request, whatever the text says', () => {
    const body = JSON.stringify({
      error: { message: 'Invalid tool: The model `m` does not exist.', type: 'BadRequestError', code: 400 },
    })
    expect(answerOf({ status: 400, headers: [], body }, SENT)).toEqual({ kind: 'client', tooLong: null })
  })

  it('an answer has the time of retry-after in seconds, or as a date beside its own', () => {
    const within = (headers: readonly string[]) => answerOf({ status: 429, headers, body: '' }, SENT)
    const date = 'Wed, 21 Oct 2026 07:28:00 GMT'
    const asks: readonly (readonly [number | null, readonly string[]])[] = [
      [1.5, ['retry-after', '1.5']],
      [0.25, ['retry-after-ms', '250', 'retry-after', '1']],
      [30, ['date', 'Wed, 21 Oct 2026 07:27:30 GMT', 'retry-after', date]],
      [0, ['date', 'Wed, 21 Oct 2026 07:29:00 GMT', 'retry-after', date]],
      [null, ['retry-after', date]],
      [null, ['date', 'today', 'retry-after', date]],
      [null, ['date', date, 'retry-after', 'tomorrow']],
      [999_999, ['date', date, 'retry-after', 'Wed, 21 Oct 2096 07:28:00 GMT']],
      [null, ['date', date, 'retry-after', '-1']],
      [null, ['retry-after-ms', 'soon']],
      [null, []],
    ]
    for (const [retryAfterS, headers] of asks) expect(within(headers)).toMatchObject({ kind: 'busy', retryAfterS })
  })

  it.each([
    [301, 'malformed'],
    [407, 'malformed'],
    [500, 'status_5xx'],
    [502, 'status_5xx'],
    [508, 'loop'],
  ])('an answer with status %i and no body is a failure: %s', (status, failure) => {
    expect(answerOf({ status, headers: [], body: '' }, SENT)).toEqual({ kind: 'broken', failure })
  })

  it.each([400, 402, 403, 409, 413, 415, 422, 501])(
    'an answer with status %i and no body goes to the client',
    (status) => {
      expect(answerOf({ status, headers: [], body: '' }, SENT)).toEqual({ kind: 'client', tooLong: null })
    },
  )

  it.each(['vllm', 'sglang'])(
    'an answer of %s about its ranks is recognised, so that it never reaches a client',
    (type) => {
      const row = rows.find((one) => one.type === type && one.name === 'rank out of range')!
      expect(engineTypeOf(type as EngineTypeName).ranks?.outOfRange.test(errorOf(row.body).message)).toBe(true)
    },
  )
})

describe('answers recorded from vLLM 0.32', () => {
  const recorded = [...busyVectors.exchanges, ...errorVectors.exchanges].map(({ name, request, response }) => {
    const { path, json } = request as { path: string; json?: { model?: string } }
    const body = JSON.stringify('json' in response ? response.json : '')
    const answer = { status: response.status, headers: Object.entries(response.headers).flat() as string[], body }
    return [name, engineTypeOf('vllm').answerOf(answer, { path, model: json?.model ?? null }), response.status] as const
  })

  it('answers recorded from vLLM 0.32 are never failures of the engine, except for a wrong key', () => {
    const broken = recorded.filter(([, { kind }]) => kind === 'broken')
    expect(broken.length).toBeGreaterThan(0)
    expect(broken.filter(([, , status]) => status !== 401)).toEqual([])
  })

  it('answers recorded from vLLM 0.32 are busy, lack a name or a route, or concern the request', () => {
    const meanings = new Map(recorded.map(([name, { kind }]) => [name, kind]))
    const named = (name: string): string | undefined => meanings.get(name)
    expect(['busy', 'busy-stream'].map(named)).toEqual(['busy', 'busy'])
    expect(['unknown-model', 'unknown-model-stream', 'unknown-model-messages'].map(named)).toEqual(
      Array(3).fill('lacks'),
    )
    expect(['unknown-route', 'wrong-method'].map(named)).toEqual(['lacks_route', 'lacks_route'])
    expect(['messages-too-long', 'response-unknown', 'bad-schema', 'bad-json'].map(named)).toEqual(
      Array(4).fill('client'),
    )
  })
})
