import { describe, expect, it } from 'vitest'
import { faultOfAnswer, judgeAnswer } from '../../src/protocols/answer.ts'
import { protocolOf } from '../../src/protocols/protocols.ts'
import { HEARTBEAT } from '../../src/protocols/stream/event.ts'
import { encode, readerOf } from './read-stream.ts'

const failure = { status: 503, type: 'server_error', code: 'no_engine_available', param: null, message: 'Try again.' }

describe('errors of the gateway', () => {
  it('errors of the gateway have the form of their protocol as body', () => {
    const openai = { error: { message: 'Try again.', type: 'server_error', param: null, code: 'no_engine_available' } }
    expect(protocolOf('/v1/chat/completions')!.errors.body(failure, 'r')).toEqual(openai)
    expect(protocolOf('/v1/responses')!.errors.body(failure, 'r')).toEqual(openai)
    const anthropic = { type: 'error', error: { type: 'overloaded_error', message: 'Try again.' }, request_id: 'r' }
    expect(protocolOf('/v1/messages')!.errors.body(failure, 'r')).toEqual(anthropic)
    expect(protocolOf('/v1/messages/batches')!.errors.body(failure, 'r')).toEqual(anthropic)
  })

  it.each(['/v1/chat/completions', '/v1/completions', '/v1/messages', '/v1/responses', '/v1/audio/transcriptions'])(
    'errors of the gateway are read as errors by the grammar of %s',
    (path) => {
      const reader = readerOf(path, protocolOf(path)!.errors.event(failure, 0))
      expect([reader.outcome(), reader.error?.message]).toEqual(['error', 'Try again.'])
    },
  )

  it.each(['/v1/chat/completions', '/v1/completions', '/v1/messages', '/v1/responses', '/v1/audio/transcriptions'])(
    'errors of the gateway are read in the failed response that a proxy sends on %s',
    (path) => {
      const failed = {
        type: 'response.failed',
        response: { status: 'failed', error: { code: 'server_error', message: 'x' } },
      }
      const reader = readerOf(path, `event: response.failed\ndata: ${JSON.stringify(failed)}\n\n`)
      expect([reader.outcome(), reader.earlyError?.status, reader.earlyError?.message]).toEqual(['error', 500, 'x'])
    },
  )

  it.each([
    ['server_is_overloaded', 529],
    ['slow_down', 529],
    ['rate_limit_exceeded', 429],
    ['invalid_prompt', 400],
    ['insufficient_quota', null],
  ])('a failed response with %s has the status %s', (code, status) => {
    const failed = { type: 'response.failed', response: { status: 'failed', error: { code, message: 'x' } } }
    const reader = readerOf('/v1/responses', `event: response.failed\ndata: ${JSON.stringify(failed)}\n\n`)
    expect(reader.earlyError?.status).toBe(status)
  })

  it('S13: have a number on responses', () => {
    expect(protocolOf('/v1/responses')!.errors.event(failure, 7)).toContain('"sequence_number":7')
  })

  it('errors of responses as events are flat and an object: clients read the one or the other', () => {
    const event = protocolOf('/v1/responses')!.errors.event(failure, 7)
    const { error, ...flat } = JSON.parse(/^event: error\ndata: (.*)\n\n$/.exec(event)![1]!) as { error: object }
    const { type, code, message, param } = failure
    expect(flat).toEqual({ type: 'error', code, message, param, sequence_number: 7 })
    expect(error).toEqual({ type, code, message, param })
  })

  it.each([
    [503, 'overloaded_error'],
    [429, 'rate_limit_error'],
    [502, 'api_error'],
  ])('errors of messages as events have the type of their status, as bodies have (%s)', (status, type) => {
    const event = protocolOf('/v1/messages')!.errors.event({ ...failure, status }, null)
    expect(event).toBe(`event: error\ndata: {"type":"error","error":{"type":"${type}","message":"Try again."}}\n\n`)
  })

  it('S14: a heartbeat is one comment line without a blank one', () => {
    expect(new TextDecoder().decode(HEARTBEAT)).toBe(': ping\n')
  })
})

describe('answers with a success status (O4)', () => {
  it.each([
    ['an error', '{"error":{"message":"x","code":500}}', 500],
    ['an error as text', '{"error":"Unauthorized"}', null],
    [
      'a flat error',
      '{"object":"error","message":"The request queue is full.","type":"503","param":null,"code":503}',
      503,
    ],
    ['an error of Anthropic', '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', 529],
    ['FastAPI', '{"detail":"Not Found"}', null],
    ['nothing', '', null],
    ['blanks', ' \n', null],
    ['a page', '<html><body>502 Bad Gateway</body></html>', null],
    ['text', 'upstream connect error', null],
    ['half a document', '{"id":"x"', null],
  ])('answers with a success status (O4) are faults if they are %s', (_case, text, status) => {
    expect(faultOfAnswer(encode(text))?.status).toBe(status)
  })

  it.each([
    '{"id":"c","choices":[{"message":{"content":"{\\"error\\":1}"}}],"error":null}',
    '{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{}}',
    '{"object":"list","data":[]}',
    '{"tokens":[1],"count":1}',
    '[0.5]',
  ])('answers with a success status (O4) are none if they are answers: %s', (text) => {
    expect(faultOfAnswer(encode(text))).toBeNull()
  })

  it('answers with a success status (O4) are judged by their beginning while the rest is to come', () => {
    expect(judgeAnswer(encode('{"id":"c","choi'), false).fault).toBeNull()
    expect(judgeAnswer(encode(''), false).fault).toBeNull()
    expect(judgeAnswer(encode('{"error": {"message'), false).fault).not.toBeNull()
    expect(judgeAnswer(encode('<!doctype'), false).fault).not.toBeNull()
  })

  it('answers with a success status (O4) are JSON except for speech and transcripts in text formats', () => {
    expect(protocolOf('/v1/audio/speech')!.answersJson({})).toBe(false)
    expect(protocolOf('/v1/audio/transcriptions')!.answersJson({ response_format: 'srt' })).toBe(false)
    expect(protocolOf('/v1/audio/transcriptions')!.answersJson({})).toBe(true)
  })
})
