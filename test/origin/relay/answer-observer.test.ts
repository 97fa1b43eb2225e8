import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { observeAnswer as open, type AnswerObserver } from '../../../src/origin/relay/answer-observer.ts'
import { chat } from '../../../src/protocols/chat.ts'
import { messages } from '../../../src/protocols/messages.ts'
import type { Protocol } from '../../../src/protocols/protocol.ts'
import { completeUsage } from '../../../src/protocols/reported-usage.ts'
import { responses } from '../../../src/protocols/responses.ts'

const observe = (sse: boolean, hidesUsage: boolean, protocol: Protocol = chat) =>
  open({ sse, protocol, isEncoded: false, hidesUsage, reader: null, start: null })
const usageIn = (observer: AnswerObserver) => {
  const usage = observer.usage()
  return usage === null ? null : completeUsage(usage)
}

const encode = (text: string) => new TextEncoder().encode(text)
const decode = (pieces: readonly Uint8Array[]) =>
  pieces.map((piece) => new TextDecoder('latin1').decode(piece)).join('')
const latin1 = (text: string) => decode([encode(text)])

const USAGE = '"usage":{"prompt_tokens":15,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}'
const record = `data: {"id":"c","choices":[],${USAGE}}`

interface Event {
  readonly lines: readonly string[]
  readonly data: boolean
  readonly usageRecord: boolean
}

const event = fc.oneof(
  fc.string({ unit: 'grapheme', maxLength: 40 }).map((text): Event => ({
    lines: [`data: {"choices":[{"delta":{"content":${JSON.stringify(text)}}}]}`],
    data: true,
    usageRecord: false,
  })),
  fc.constantFrom<Event>(
    { lines: [record], data: true, usageRecord: true },
    { lines: [record.replaceAll(':', ': ')], data: true, usageRecord: true },
    { lines: [`data: {"choices":[{"index":0}],${USAGE}}`], data: true, usageRecord: false },
    { lines: ['data: {"choices":[],"usage":null}'], data: true, usageRecord: false },
    { lines: ['data: {"choices":[{"text":"say \\"usage\\":{ twice"}]}'], data: true, usageRecord: false },
    { lines: [': keep-alive'], data: false, usageRecord: false },
    { lines: ['event: message_start', 'data: {"type":"x"}'], data: true, usageRecord: false },
    { lines: ['id: 7', 'retry: 10'], data: false, usageRecord: false },
  ),
)
/** Nothing follows the end of a stream. */
const END: Event = { lines: ['data: [DONE]'], data: true, usageRecord: false }
const stream = fc.record({
  events: fc
    .tuple(fc.array(event, { maxLength: 12 }), fc.boolean())
    .map(([events, ends]) => (ends ? [...events, END] : events)),
  crlf: fc.boolean(),
  offsets: fc.array(fc.nat(), { maxLength: 30 }),
})

function textOf(events: readonly Event[], crlf: boolean): string {
  const end = crlf ? '\r\n' : '\n'
  return events.map(({ lines }) => lines.join(end) + end + end).join('')
}

function splitAt(bytes: Uint8Array, offsets: readonly number[]): Uint8Array[] {
  const at = [...new Set([0, ...offsets.map((one) => one % (bytes.length + 1)), bytes.length])].sort((a, b) => a - b)
  return at.slice(1).map((to, i) => bytes.subarray(at[i], to))
}

describe('an observer', () => {
  it('an observer that hides usage releases an event without its blank line when the body ends', () => {
    const observer = observe(true, true)
    const out: Uint8Array[] = []
    const emit = (piece: Uint8Array): void => void out.push(piece.slice())
    observer.take(encode('data: 1\n\ndata: {"last":'), emit)
    expect(decode(out)).toBe('data: 1\n\n')
    observer.end(emit)
    expect(decode(out)).toBe('data: 1\n\ndata: {"last":')
  })

  it('reads usage with braces and quotes in a text of it', () => {
    const observer = observe(false, false)
    observer.take(encode('{"usage":{"prompt_tokens":4,"note":"a } or \\" b","completion_tokens":2}}'), () => {})
    expect(usageIn(observer)).toEqual({ promptTokens: 4, completionTokens: 2, cachedTokens: null })
  })

  it.each([
    ['data: [DONE]\n\n', 'unfinished'],
    ['data: {"text":"a"} data: [DONE]\n\n', 'error'],
  ])('an observer finds the end of %j, truncated in its first line', (text, outcome) => {
    const observer = observe(true, false)
    for (const piece of [text.slice(0, 3), text.slice(3)]) observer.take(encode(piece), () => {})
    expect(observer.outcome()).toBe(outcome)
  })
})

describe('a stream cut anywhere', () => {
  it('a stream cut anywhere passes every byte, and counts data events and boundaries', () => {
    fc.assert(
      fc.property(stream, ({ events, crlf, offsets }) => {
        const bytes = encode(textOf(events, crlf))
        const observer = observe(true, false)
        const out: Uint8Array[] = []
        for (const piece of splitAt(bytes, offsets)) observer.take(piece, (passed) => out.push(passed))
        observer.end((passed) => out.push(passed))
        expect(decode(out)).toBe(decode([bytes]))
        expect(observer.events).toBe(events.filter(({ data }) => data).length)
        expect(observer.atBoundary).toBe(true)
        const hasUsage = events.some(({ lines }) =>
          lines.some((line) => line.replaceAll(' ', '').includes('"prompt_tokens":15')),
        )
        expect(usageIn(observer)).toEqual(hasUsage ? { promptTokens: 15, completionTokens: 3, cachedTokens: 8 } : null)
      }),
      { numRuns: 400 },
    )
  })

  it('a stream cut anywhere removes only usage records if they are hidden', () => {
    fc.assert(
      fc.property(stream, ({ events, crlf, offsets }) => {
        const bytes = encode(textOf(events, crlf))
        const observer = observe(true, true)
        const out: Uint8Array[] = []
        for (const piece of splitAt(bytes, offsets)) {
          observer.take(piece, (passed) => out.push(passed))
          expect(observer.atBoundary).toBe(true)
        }
        observer.end((passed) => out.push(passed))
        const kept = events.filter(({ usageRecord }) => !usageRecord)
        expect(decode(out)).toBe(latin1(textOf(kept, crlf)))
        expect(observer.events).toBe(kept.filter(({ data }) => data).length)
      }),
      { numRuns: 400 },
    )
  })

  it('a stream cut anywhere gives the same result for whole events, split events and any split', () => {
    fc.assert(
      fc.property(stream, fc.boolean(), fc.boolean(), ({ events, crlf, offsets }, hideUsage, byEvent) => {
        const bytes = encode(textOf(events, crlf))
        const pieces = byEvent ? events.map((one) => encode(textOf([one], crlf))) : splitAt(bytes, offsets)
        const observer = observe(true, hideUsage)
        const out: Uint8Array[] = []
        for (const piece of pieces) {
          // A part of a larger buffer.
          const around = new Uint8Array(piece.length + 20).fill(10)
          around.set(piece, 9)
          const whole = observer.takesWhole(around, 9, 9 + piece.length)
          if (whole === 'passed') out.push(piece)
          else if (whole === 'unread') observer.take(piece, (passed) => out.push(passed))
        }
        observer.end((passed) => out.push(passed))
        const kept = hideUsage ? events.filter(({ usageRecord }) => !usageRecord) : events
        expect(decode(out)).toBe(latin1(textOf(kept, crlf)))
        expect(observer.events).toBe(kept.filter(({ data }) => data).length)
      }),
      { numRuns: 400 },
    )
  })

  it('a stream cut anywhere passes an endless event without holding it, and reports no boundary in it', () => {
    const observer = observe(true, true)
    const out: Uint8Array[] = []
    const emit = (piece: Uint8Array) => void out.push(piece)
    observer.take(encode('data: '), emit)
    for (let i = 0; i < 20; i++) observer.take(encode('x'.repeat(8192)), emit)
    expect(observer.atBoundary).toBe(false)
    expect(out.reduce((total, piece) => total + piece.length, 0)).toBeGreaterThan(64 * 1024)
    observer.take(encode('\n\ndata: [DONE]\n\n'), emit)
    expect(observer.atBoundary).toBe(true)
    expect(decode(out)).toBe(`data: ${'x'.repeat(8192 * 20)}\n\ndata: [DONE]\n\n`)
    expect(observer.events).toBe(2)
  })
})

describe('usage in a body', () => {
  const body = fc.record({
    text: fc.string({ unit: 'grapheme', maxLength: 60 }),
    prompt: fc.nat(1e6),
    output: fc.nat(1e6),
    cached: fc.option(fc.nat(1e6)),
    shape: fc.constantFrom('chat', 'responses', 'spaced'),
    offsets: fc.array(fc.nat(), { maxLength: 20 }),
  })

  it('usage in a body is found wherever the bytes are cut, in both of OpenAI’s shapes', () => {
    fc.assert(
      fc.property(body, ({ text, prompt, output, cached, shape, offsets }) => {
        const usage =
          shape === 'responses'
            ? {
                input_tokens: prompt,
                output_tokens: output,
                input_tokens_details: cached === null ? null : { cached_tokens: cached },
              }
            : {
                prompt_tokens: prompt,
                completion_tokens: output,
                prompt_tokens_details: cached === null ? null : { cached_tokens: cached },
              }
        const json = {
          choices: [{ message: { content: `${text}"usage":{"prompt_tokens":1}` } }],
          usage,
          kv_transfer_params: null,
          prompt_token_ids: [1, 2, 3],
        }
        const observer = observe(false, false, shape === 'responses' ? responses : chat)
        for (const piece of splitAt(encode(JSON.stringify(json, null, shape === 'spaced' ? 2 : 0)), offsets))
          observer.take(piece, () => {})
        expect(usageIn(observer)).toEqual({ promptTokens: prompt, completionTokens: output, cachedTokens: cached })
      }),
      { numRuns: 400 },
    )
  })

  it('usage in a body is put together from the first and the last event of Anthropic’s streams', () => {
    const observer = observe(true, false, messages)
    const events = [
      'event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":25,"output_tokens":1,"cache_read_input_tokens":16}}}\n\n',
      'event: message_delta\ndata: {"type":"message_delta","delta":{},"usage":{"output_tokens":15}}\n\n',
    ]
    for (const one of events) observer.take(encode(one), () => {})
    expect(usageIn(observer)).toEqual({ promptTokens: 41, completionTokens: 15, cachedTokens: 16 })
  })

  it('usage in a body is null if it is no object, too long, has impossible numbers, or has no usage', () => {
    for (const text of [
      '{"usage":{"prompt_tokens":1e308}}',
      '{"usage":{"prompt_tokens":1000000001}}',
      '{"usage":{"prompt_tokens":0.5}}',
      '{"usage":null}',
      '{"usage":[1]}',
      '{"usage":"usage"}',
      `{"usage":{"x":"${'y'.repeat(10_000)}"}}`,
      '{"usage":{"a":1}}',
      '{"usage":{"prompt_tokens":-1}}',
      '"usage"',
    ]) {
      const observer = observe(false, false)
      observer.take(encode(text), () => {})
      expect(usageIn(observer)).toBeNull()
    }
  })
})
