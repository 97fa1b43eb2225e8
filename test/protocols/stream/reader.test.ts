import * as fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { StreamReader } from '../../../src/protocols/stream/reader.ts'
import {
  chatChunk,
  data,
  DONE,
  encode,
  grammarOf,
  kindsOf,
  named,
  readerOf,
  ROLE,
  stateOf,
  vector,
} from '../read-stream.ts'

const CHAT = '/v1/chat/completions'
const PATHS: Readonly<Record<string, string>> = {
  aborted: CHAT,
  busy: CHAT,
  chat: CHAT,
  'chat-usage': CHAT,
  'chat-usage-each': CHAT,
  tools: CHAT,
  bom: '/v1/completions',
  comments: '/v1/completions',
  completion: '/v1/completions',
  crlf: '/v1/completions',
  'engine-died': '/v1/completions',
  fields: '/v1/completions',
  lines: '/v1/completions',
  'no-done': '/v1/completions',
  'no-space': '/v1/completions',
  'quoted-usage': '/v1/completions',
  messages: '/v1/messages',
  responses: '/v1/responses',
}
const complete = Object.keys(PATHS).filter((name) => !['aborted', 'busy', 'engine-died', 'no-done'].includes(name))

describe('recorded streams', () => {
  it.each(complete)('%s is complete', (name) => {
    const reader = readerOf(PATHS[name]!, vector(name))
    expect([reader.outcome(), reader.error, reader.hasBegun]).toEqual(['complete', null, true])
  })

  it.each([
    ['aborted', 'error'],
    ['busy', 'error'],
    ['engine-died', 'error'],
    ['no-done', 'complete'],
  ])('%s ends as %s', (name, outcome) => {
    expect(readerOf(PATHS[name]!, vector(name)).outcome()).toBe(outcome)
  })

  it.each(Object.keys(PATHS))('%s means the same however its bytes are divided', (name) => {
    const bytes = encode(vector(name))
    const whole = stateOf(readerOf(PATHS[name]!, vector(name)))
    for (let size = 1; size < 40; size += size < 8 ? 1 : 7) {
      const reader = new StreamReader(grammarOf(PATHS[name]!))
      // The memory of a chunk is used again for the next one.
      const memory = new Uint8Array(size)
      for (let at = 0; at < bytes.length; at += size) {
        const piece = bytes.subarray(at, at + size)
        memory.set(piece)
        reader.take(memory, 0, piece.length)
      }
      expect(stateOf(reader)).toEqual(whole)
    }
  })

  it('the reader of recorded streams has the kind of each event of a chat', () => {
    expect(kindsOf(CHAT, vector('chat-usage'))).toEqual([
      'opening',
      'output',
      'output',
      'output',
      'output',
      'usage',
      'end',
    ])
  })

  it('the reader of recorded streams has the kind of each event of a message', () => {
    expect(kindsOf('/v1/messages', vector('messages'))).toEqual([
      'opening',
      'structure',
      'output',
      'output',
      'output',
      'output',
      'structure',
      'structure',
      'end',
    ])
  })

  it('the reader of recorded streams has the kind of each event of a response', () => {
    const kinds = kindsOf('/v1/responses', vector('responses'))
    expect(kinds.slice(0, 4)).toEqual(['opening', 'opening', 'structure', 'structure'])
    expect(kinds.at(-1)).toBe('end')
    expect(kinds.filter((kind) => kind === 'output')).toHaveLength(4)
  })

  it('the reader of recorded streams counts the tokens of a response, a message and a chat', () => {
    expect(readerOf('/v1/responses', vector('responses')).usage?.outputTokens).toBe(4)
    expect(readerOf('/v1/messages', vector('messages')).usage).toEqual({
      promptTokens: 31,
      cachedTokens: 0,
      outputTokens: 4,
    })
    expect(readerOf(CHAT, vector('chat-usage')).usage).toEqual({ promptTokens: 31, cachedTokens: 0, outputTokens: 4 })
  })
})

describe('the first token (O21, O22, O23)', () => {
  const created = named({ type: 'response.created' })
  const queued = named({ type: 'response.in_progress' })

  it('the first token is not response.created or response.in_progress', () => {
    const reader = readerOf('/v1/responses', created + queued)
    expect([reader.hasBegun, reader.outputs]).toEqual([false, 0])
    reader.take(encode(named({ type: 'response.output_item.added' })))
    expect(reader.hasBegun).toBe(true)
  })

  it('the first token is not the role of a chat, a comment, a ping or message_start', () => {
    expect(readerOf(CHAT, `: keep-alive\n\n${ROLE}`).hasBegun).toBe(false)
    const start = named({ type: 'message_start', message: { usage: { input_tokens: 3 } } } as { type: string })
    const message = readerOf('/v1/messages', start + named({ type: 'ping' }) + ': ping\n\n')
    expect([message.hasBegun, message.events]).toEqual([false, 1])
  })

  it('the first token is a token without text, too', () => {
    expect(readerOf(CHAT, ROLE + chatChunk({})).hasBegun).toBe(true)
  })
})

describe('faults before the first output', () => {
  const overloaded =
    'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
  const long = 'x'.repeat(1100)

  it.each([
    ['S9a', '/v1/messages', overloaded, 529],
    [
      'S9b error',
      '/v1/responses',
      `${named({ type: 'response.created' })}${named({ type: 'error', code: 'server_error', message: 'x', param: null, sequence_number: 1 } as { type: string })}`,
      500,
    ],
    [
      'S9b failed',
      '/v1/responses',
      `${named({ type: 'response.created' })}${named({ type: 'response.failed', response: { status: 'failed', error: { code: 'server_error', message: 'x' } } } as { type: string })}`,
      500,
    ],
    ['S9c', CHAT, 'event: error\ndata: {"error":{"message":"x","code":500}}\n\n', 500],
    ['S9 control', CHAT, data({ error: { message: 'x', code: 500 } }), 500],
    ['S10', CHAT, `${data({ error: { message: long, type: 'InternalServerError', code: 500 } })}${DONE}`, 500],
    [
      'S4 in a stream',
      CHAT,
      data({ object: 'error', message: 'The request queue is full.', type: 'ServiceUnavailableError', code: 503 }),
      503,
    ],
    ['code as text', CHAT, data({ error: { message: 'x', code: '503' } }), 503],
    ['Ollama', CHAT, data({ error: 'server busy, please try again.  maximum pending requests exceeded' }), null],
    ['TGI', CHAT, 'data:{"error":"Model is overloaded","error_type":"overloaded"}\n\n', 529],
    ['llama.cpp before 2025', CHAT, 'error: {"code":500,"message":"x","type":"server_error"}\n\n', null],
    [
      'vLLM converter',
      '/v1/messages',
      'event: error\ndata: {"type":"error","error":{"type":"internal_error","message":"x"}}\n\ndata: [DONE]\n\n',
      500,
    ],
    ['text', CHAT, 'data: Internal Server Error\n\n', null],
    ['named text', '/v1/messages', 'event: error\ndata: upstream connect error\n\n', null],
    ['chat error in a response stream', '/v1/responses', data({ error: { message: 'x', code: 503 } }), 503],
  ])('%s is an error', (_case, path, text, status) => {
    const reader = readerOf(path, text)
    expect([reader.hasBegun, reader.error?.status, reader.outcome()]).toEqual([false, status, 'error'])
  })

  it.each(['', ': keep-alive\n\n'])('S8: an empty stream (%j) has neither begun nor ended', (text) => {
    for (const path of [CHAT, '/v1/completions', '/v1/messages', '/v1/responses']) {
      const reader = readerOf(path, text)
      expect([reader.hasBegun, reader.hasEnded, reader.outcome()]).toEqual([false, false, 'truncated'])
    }
  })

  it('an error before the first output keeps the text of an error for the rules of the engine type', () => {
    expect(readerOf(CHAT, vector('busy')).error?.body).toContain('currently busy')
  })
})

describe('faults after output', () => {
  const two = ROLE + chatChunk({ content: 'a' }) + chatChunk({ content: 'b' })

  it.each([
    ['S11 error event', two + data({ error: { message: 'x', code: 500 } }) + DONE, 'error'],
    ['S11 no finish reason', two + DONE, 'unfinished'],
    ['S11 abort', two + chatChunk({}, 'abort') + DONE, 'error'],
    ['DeepSeek out of resources', two + chatChunk({}, 'insufficient_system_resource') + DONE, 'error'],
    ['finish reason error', two + chatChunk({}, 'error') + DONE, 'error'],
    ['one of two choices', two + chatChunk({ content: 'c' }, null, 1) + chatChunk({}, 'stop') + DONE, 'unfinished'],
    ['no [DONE]', two + chatChunk({}, 'stop'), 'complete'],
    ['no [DONE] of an engine that gave up', two + chatChunk({}, 'abort'), 'error'],
    [
      'no [DONE] and one of two choices',
      two + chatChunk({ content: 'c' }, null, 1) + chatChunk({}, 'stop'),
      'truncated',
    ],
    ['no [DONE] and no blank line', (two + chatChunk({}, 'stop')).trimEnd(), 'complete'],
    ['no [DONE], no blank line and no finish reason', two.trimEnd(), 'truncated'],
    ['no [DONE] and half an event', `${two + chatChunk({}, 'stop')}data: {"usage`, 'truncated'],
    ['neither finish reason nor end', two, 'truncated'],
    ['data after the end', two + chatChunk({}, 'stop') + DONE + chatChunk({ content: 'c' }), 'truncated'],
    ['half an event', `${two}data: {"id"`, 'truncated'],
    ['complete', two + chatChunk({}, 'stop') + DONE, 'complete'],
    ['comments after the end', `${two + chatChunk({}, 'stop') + DONE}: server-timing\n\n`, 'complete'],
    ['the end without its blank line', `${two + chatChunk({}, 'stop')}data: [DONE]`, 'complete'],
    ['half a comment after the end', `${two + chatChunk({}, 'stop') + DONE}: pi`, 'complete'],
    ['half an event after the end', `${two + chatChunk({}, 'stop') + DONE}data: {`, 'truncated'],
    ['end twice', two + chatChunk({}, 'stop') + DONE + DONE, 'complete'],
  ])('%s', (_case, text, outcome) => {
    expect(readerOf(CHAT, text).outcome()).toBe(outcome)
  })

  it('S12: a message or response without its last event is truncated', () => {
    const message = vector('messages').replace(/event: message_stop[^]*$/, '')
    expect(readerOf('/v1/messages', message).outcome()).toBe('truncated')
    const response = vector('responses').replace(/event: response\.completed[^]*$/, '')
    expect(readerOf('/v1/responses', response).outcome()).toBe('truncated')
  })

  it('the reader of a stream takes [DONE] for no end of a message, also without its blank line', () => {
    const message = vector('messages').replace(/event: message_stop[^]*$/, '')
    expect(readerOf('/v1/messages', `${message}data: [DONE]`).outcome()).toBe('truncated')
    expect(readerOf('/v1/messages', `${vector('messages')}data: [DONE]`).outcome()).toBe('complete')
  })

  it.each(['messages', 'responses'])(
    'the reader of a stream of %s reads its last event without its blank line',
    (name) => {
      const whole = readerOf(`/v1/${name}`, vector(name))
      expect(whole.outcome()).toBe('complete')
      const reader = readerOf(`/v1/${name}`, vector(name).trimEnd())
      expect([reader.outcome(), reader.usage]).toEqual(['complete', whole.usage])
    },
  )

  it('the reader of a stream takes a message without a stop reason for unfinished', () => {
    const given = vector('messages').replace('"stop_reason":"max_tokens"', '"stop_reason":null')
    expect(readerOf('/v1/messages', given).outcome()).toBe('unfinished')
  })

  it('the reader of a stream takes [DONE] after message_stop and after response.completed as vLLM and SGLang send it', () => {
    expect(readerOf('/v1/messages', vector('messages') + DONE).outcome()).toBe('complete')
    expect(readerOf('/v1/responses', vector('responses') + DONE).outcome()).toBe('complete')
  })

  it.each(['failed', 'cancelled'])(
    'the reader of a stream takes a response.completed with status %s for an error',
    (status) => {
      const reader = readerOf(
        '/v1/responses',
        named({ type: 'response.completed', response: { status } } as { type: string }),
      )
      expect(reader.outcome()).toBe('error')
    },
  )

  it('the reader of a stream takes response.incomplete for a proper end', () => {
    const last = named({ type: 'response.incomplete', response: { status: 'incomplete' } } as { type: string })
    expect(readerOf('/v1/responses', last).outcome()).toBe('complete')
  })
})

describe('numbers of events (S13)', () => {
  it('go on in the error event of the gateway', () => {
    const event = (type: string, number: number): string => named({ type, sequence_number: number } as { type: string })
    const reader = readerOf('/v1/responses', event('response.created', 0) + event('response.in_progress', 1))
    expect(reader.nextSequence).toBe(2)
    const resumed = readerOf('/v1/responses', event('response.output_text.delta', 40))
    expect(resumed.nextSequence).toBe(41)
    expect(readerOf(CHAT, ROLE).nextSequence).toBeNull()
  })

  it('numbers of events (S13) are read from the first short event, which a keep-alive is not', () => {
    const event = (type: string, number: number, response: object = {}): string =>
      named({ type, response, sequence_number: number } as { type: string })
    const large = { instructions: 'x'.repeat(4000) }
    const text = event('keepalive', 0) + event('response.created', 5, large) + event('response.output_item.added', 6)
    expect(readerOf('/v1/responses', text).nextSequence).toBe(7)
  })
})

describe('first lines of named events', () => {
  const block = JSON.stringify({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'x' } })
  it.each(['event: NAME\n', 'event:NAME\n', 'event: NAME\r\n', 'event:NAME\r\n'])(
    'first lines of named events are known as %j',
    (line) => {
      const reader = readerOf('/v1/messages', '')
      const bytes = encode(`${line.replace('NAME', 'content_block_delta')}data: ${block}\n\n`)
      const parse = vi.spyOn(JSON, 'parse')
      try {
        expect(reader.event(bytes, 0, bytes.length)).toBe('output')
        expect(parse).not.toHaveBeenCalled()
      } finally {
        parse.mockRestore()
      }
    },
  )

  it('first lines of named events are unlike names that begin or end as they do', () => {
    const events = ['content_block_delta2', 'ontent_block_delta', 'message_stops'].map(
      (name) => `event: ${name}\ndata: {"type":"ping"}\n\n`,
    )
    expect(kindsOf('/v1/messages', events.join(''))).toEqual(['other', 'other', 'other'])
  })

  it('first lines of named events end a message once', () => {
    const stop = named({ type: 'message_stop' })
    const delta = named({ type: 'message_delta', delta: { stop_reason: 'end_turn' } } as { type: string })
    expect(readerOf('/v1/messages', delta + stop).outcome()).toBe('complete')
    expect(readerOf('/v1/messages', delta + stop + stop).outcome()).toBe('truncated')
  })
})

describe('other forms of streams', () => {
  it('reads OpenAI transcriptions, which end in transcript.text.done', () => {
    const text =
      data({ type: 'transcript.text.delta', delta: 'Hi' }) +
      data({ type: 'transcript.text.done', text: 'Hi', usage: { type: 'tokens', input_tokens: 14, output_tokens: 2 } })
    const reader = readerOf('/v1/audio/transcriptions', text)
    expect([reader.outcome(), reader.outputs]).toEqual(['complete', 1])
    expect(reader.usage).toEqual({ promptTokens: 14, cachedTokens: null, outputTokens: 2 })
    reader.take(encode(DONE))
    expect(reader.outcome()).toBe('complete')
  })

  it('the reader of a stream reads transcriptions of vLLM, which have choices', () => {
    const text =
      data({ object: 'transcription.chunk', choices: [{ delta: { content: ' hi' }, finish_reason: null }] }) +
      data({ object: 'transcription.chunk', choices: [{ delta: { content: '' }, finish_reason: 'stop' }] }) +
      DONE
    expect(readerOf('/v1/audio/translations', text).outcome()).toBe('complete')
  })

  it('the reader of a stream reads events without a name by their type', () => {
    const unnamed = vector('responses').replaceAll(/^event: .*\n/gm, '')
    expect(stateOf(readerOf('/v1/responses', unnamed))).toEqual(stateOf(readerOf('/v1/responses', vector('responses'))))
    const message = vector('messages').replaceAll(/^event: .*\n/gm, '')
    expect(stateOf(readerOf('/v1/messages', message))).toEqual(stateOf(readerOf('/v1/messages', vector('messages'))))
  })

  it('the reader of a stream takes an id alone and empty data for keep-alives (S14)', () => {
    const text = `id: 1\n${ROLE}id: 2\n\ndata: \n\n`
    expect(kindsOf(CHAT, text)).toEqual(['opening', 'comment', 'comment'])
  })

  it('reads large events by name and wanted members alone', () => {
    const tools = [{ name: 'f', description: 'd'.repeat(200_000) }]
    const usage = { input_tokens: 9, output_tokens: 3 }
    const text =
      named({ type: 'response.created', response: { tools } } as { type: string }) +
      named({ type: 'response.completed', response: { tools, status: 'completed', usage } } as { type: string })
    const reader = new StreamReader(grammarOf('/v1/responses'))
    const bytes = encode(text)
    for (let at = 0; at < bytes.length; at += 16_384) reader.take(bytes.subarray(at, at + 16_384))
    expect(reader.outcome()).toBe('complete')
    expect(reader.usage).toEqual({ promptTokens: 9, cachedTokens: null, outputTokens: 3 })
    expect(stateOf(readerOf('/v1/responses', text))).toEqual(stateOf(reader))
  })
})

const anyText = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 30 }),
  fc.constantFrom(
    '"finish_reason":"stop"',
    '"},"logprobs":null,"finish_reason":"abort","token_ids":null}]}',
    '","usage":{"prompt_tokens":1},"x":"',
    '\\',
    '\\"',
    '{"error":{"code":500}}',
    'data: [DONE]\n\n',
  ),
)
const field = fc.constantFrom('content', 'reasoning', 'reasoning_content')
const anyChunk = fc.oneof(
  { weight: 6, arbitrary: fc.record({ text: anyText, field, index: fc.nat(1) }) },
  { weight: 1, arbitrary: fc.constantFrom('usage', 'stop', 'error', 'comment', 'abort') },
)

describe('the fast path', () => {
  it('the fast path finds the same as parsing each event', () => {
    fc.assert(
      fc.property(fc.array(anyChunk, { maxLength: 30 }), (chunks) => {
        let outputs = 0
        let hasError = false
        const events = chunks.map((one) => {
          if (typeof one === 'object') {
            if (one.text !== '') outputs++
            return chatChunk({ [one.field]: one.text }, null, one.index)
          }
          if (one === 'usage') return data({ choices: [], usage: { prompt_tokens: 2, completion_tokens: 1 } })
          if (one === 'comment') return ': ping\n\n'
          hasError ||= one !== 'stop'
          return one === 'error' ? data({ error: { code: 500 } }) : chatChunk({}, one)
        })
        const reader = readerOf(CHAT, events.join(''))
        expect(reader.outputs).toBe(outputs)
        expect(reader.error !== null).toBe(hasError)
        expect(reader.usage !== null).toBe(chunks.includes('usage'))
        expect(reader.events).toBe(chunks.filter((one) => one !== 'comment').length)
      }),
      { numRuns: 500 },
    )
  })

  it('the fast path recognizes chunks of llama.cpp, whose finish reason is before the text', () => {
    const llama = (content: string, finish: string | null): string =>
      data({ choices: [{ finish_reason: finish, index: 0, delta: { content } }], created: 1, id: 'c', model: 'm' })
    const reader = readerOf(CHAT, llama('a', null) + llama('b', null) + llama('c', 'stop') + DONE)
    expect([reader.outputs, reader.outcome()]).toEqual([3, 'complete'])
    expect(readerOf(CHAT, llama('a', null) + llama('b', null) + DONE).outcome()).toBe('unfinished')
  })

  it('the fast path takes no finish reason behind the text for a part of it', () => {
    const reader = readerOf('/v1/completions', '')
    const chunk = (choice: object): string =>
      `data: ${JSON.stringify({ id: 'c', choices: [{ index: 0, ...choice }] })}\n\n`
    for (const text of ['a', 'b "c"', 'd']) reader.take(encode(chunk({ text })))
    reader.take(encode(chunk({ text: '', finish_reason: 'stop' })))
    reader.take(encode('data: [DONE]\n\n'))
    expect([reader.outputs, reader.outcome()]).toEqual([3, 'complete'])
  })

  it('reads usage that each chunk has (continuous_usage_stats)', () => {
    const reader = readerOf(CHAT, vector('chat-usage-each'))
    expect(reader.usage?.outputTokens).toBe(4)
  })
})

it('the reader of a stream reads the finish reason of an event that is like an output event up to the end of its text', () => {
  const event = (choice: object): string => data({ object: 'text_completion', choices: [{ index: 0, ...choice }] })
  const reader = readerOf('/v1/completions', '')
  for (const text of ['a', 'b', 'c']) reader.take(encode(event({ text })))
  reader.take(encode(event({ text: '', finish_reason: 'stop' }) + DONE))
  expect([reader.outputs, reader.outcome()]).toEqual([3, 'complete'])
})

describe('chunks without text that were read in an earlier stream', () => {
  const chunk = fc.oneof(
    fc.record({
      id: fc.constantFrom('chatcmpl-1', 'chatcmpl-2', 'x'),
      first: fc.constantFrom('id', 'model'),
      delta: fc.constantFrom({}, { role: 'assistant', content: '' }, { content: 'a' }),
      finish: fc.constantFrom(null, 'stop', 'abort', 'length'),
      index: fc.nat(2),
    }),
    fc.constant('usage'),
  )

  it('chunks without text that were read in an earlier stream have the meaning that a parser finds', () => {
    const grammar = grammarOf(CHAT)
    fc.assert(
      fc.property(fc.array(chunk, { maxLength: 12 }), fc.nat(1), (chunks, ends) => {
        const events = [...chunks, ...Array.from({ length: ends }, () => '[DONE]')].map((one) => {
          if (one === '[DONE]') return DONE
          if (one === 'usage') return data({ choices: [], usage: { prompt_tokens: 2, completion_tokens: 1 } })
          const { id, first, delta, finish, index } = one as Exclude<typeof one, string>
          return data({ [first]: id, created: 1, choices: [{ index, delta, finish_reason: finish }] })
        })
        const seen = [grammar, { ...grammar }].map((each) => {
          const reader = new StreamReader(each)
          return events.map((event) => {
            reader.take(encode(event))
            const { outputs, isWaiting, hasBegun, hasEnded, usage, error, earlyError } = reader
            const counts = [reader.events, outputs, reader.outcome()]
            return { counts, isWaiting, hasBegun, hasEnded, usage, error, earlyError }
          })
        })
        expect(seen[0]).toEqual(seen[1])
      }),
      { numRuns: 500 },
    )
  })

  it('chunks without text that were read in an earlier stream are parsed if they begin with another member', () => {
    const tail = ',"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    const healthy = `data: {"id":"abcdefgh"${tail}`
    readerOf(CHAT, healthy + DONE)
    expect(readerOf(CHAT, healthy).error).toBeNull()
    expect(readerOf(CHAT, `data: {"error":"abcde"${tail}`).error).not.toBeNull()
  })
})

describe('an event of a grammar', () => {
  const read = (path: string, json: object, name: string | null = null) =>
    grammarOf(path).read(name, JSON.stringify(json))

  it('an event of a grammar has the reasoning of an engine that sends it under both names once', () => {
    const delta = { reasoning: 'why', reasoning_content: 'why' }
    expect(read(CHAT, { choices: [{ index: 0, delta }] })).toMatchObject({ kind: 'output', text: 'why' })
    const other = { reasoning: 'why', reasoning_content: ' not' }
    expect(read(CHAT, { choices: [{ index: 0, delta: other }] })).toMatchObject({ kind: 'output', text: 'why not' })
  })

  it('an event of a grammar is an error by its name, whatever its data are', () => {
    for (const path of [CHAT, '/v1/completions', '/inference/v1/generate'])
      expect(read(path, { text: 'gave up' }, 'error')).toMatchObject({ kind: 'error' })
  })

  it.each(['response.failed', 'response.cancelled'])(
    'an event of a grammar is an error if it is %s, even without a status',
    (type) => {
      expect(read('/v1/responses', { type, response: { output: [] } }, type)).toMatchObject({ kind: 'error' })
    },
  )
})
