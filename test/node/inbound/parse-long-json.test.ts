/**
 * Long prompts are parsed without strings of their texts: every reader gets the same document, or parsing is declined.
 */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readJson } from '../../../src/api/body/body.ts'
import { estimateTokensByChars } from '../../../src/api/prompt/split-estimate.ts'
import { Utf8Text } from '../../../src/core/tokens/utf8-text.ts'
import { parseLong, parseLongInTurns } from '../../../src/platform/node/parse-long-json.ts'
import { hasControl, Unescaper } from '../../../src/platform/node/json-text.ts'
import { compileTemplate } from '../../../src/chat-template.ts'
import { analyzerOf, requestOf } from '../../core/tokens/support.ts'

const bytesOf = (json: string): Uint8Array => new TextEncoder().encode(json)
/** Parses documents without the optimisation, as `readJson` does when `parseLong` declines. */
const parseWhole = (bytes: Uint8Array): unknown => JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
/** Replaces long texts by strings. */
const spelledOut = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

/** One character in any form that JSON allows. */
const written = fc.oneof(
  {
    weight: 20,
    arbitrary: fc
      .integer({ min: 0x20, max: 0x7e })
      .map((code) => JSON.stringify(String.fromCharCode(code)).slice(1, -1)),
  },
  { weight: 2, arbitrary: fc.constantFrom('\\n', '\\t', '\\r', '\\b', '\\f', '\\/', '\\"', '\\\\') },
  { weight: 1, arbitrary: fc.constantFrom('é', '„', '好', '🙂', '\u007f', '\u0080', '\uffff', '\ufeff') },
  {
    weight: 1,
    arbitrary: fc
      .integer({ min: 0, max: 0x10ffff })
      .map((code) =>
        code >= 0xd800 && code <= 0xdfff
          ? 'x'
          : Array.from(
              String.fromCodePoint(code).split(''),
              (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
            ).join(''),
      ),
  },
)
/**
 * JSON text without its quotes, repeated to be long. None looks like a placeholder: such a document is parsed whole.
 */
const jsonText = fc
  .tuple(
    fc.array(written, { minLength: 1, maxLength: 40 }),
    fc.integer({ min: 1, max: 4_000 }),
    fc.array(written, { maxLength: 40 }),
  )
  .map(([unit, times, end]) => unit.join('').repeat(times) + end.join(''))
  .filter((text) => !text.includes('\\u0000'))
const longText = fc
  .tuple(fc.array(written, { minLength: 1, maxLength: 40 }), fc.array(written, { maxLength: 40 }))
  .map(([unit, end]) => {
    const text = unit.join('')
    return text.repeat(Math.ceil(70_000 / text.length)) + end.join('')
  })

const shapes: readonly (readonly [string, (a: string, b: string) => string])[] = [
  [
    'chat',
    (a, b) =>
      `{"model":"m","messages":[{"role":"system","content":"${b}"},{"role":"user","content":"${a}"}],"stream":true}`,
  ],
  [
    'chat',
    (a, b) =>
      `{"messages":[{"role":"user","content":[{"type":"text","text":"${a}"},{"type":"image_url","image_url":{"url":"${b}"}},"${b}"]}]}`,
  ],
  [
    'chat',
    (a, b) =>
      `{"messages":[{"role":"user","content":[{"type":"file","text":"${a}","name":"${b}"}]}],"documents":[{"text":"${b}"}]}`,
  ],
  [
    'chat',
    (a, b) =>
      `{"messages":[{"role":"assistant","content":"${a}","reasoning":"${b}","tool_calls":[{"function":{"name":"f","arguments":"${b}"}}]}]}`,
  ],
  [
    'chat',
    (a, b) =>
      `{"messages":[{"role":"user","content":"${a}"}],"tools":[{"type":"function","function":{"name":"f","description":"${b}","parameters":{"content":"${b}","text":"${a}"}}}]}`,
  ],
  ['completions', (a, b) => `{"prompt":"${a}","suffix":"${b}"}`],
  ['completions', (a, b) => `{"prompt":["${a}","${b}"]}`],
  ['embeddings', (a, b) => `{"input":["${a}","${b}","short"]}`],
  ['rerank', (a, b) => `{"query":"${b}","documents":["${a}",{"text":"${b}"}]}`],
  ['responses', (a, b) => `{"instructions":"${b}","input":"${a}"}`],
  [
    'responses',
    (a, b) =>
      `{"input":[{"role":"user","content":[{"type":"input_text","text":"${a}"}]},{"type":"function_call_output","call_id":"1","output":"${b}"},{"type":"reasoning","content":[{"type":"text","text":"${b}"}]}]}`,
  ],
  ['messages', (a, b) => `{"system":"${b}","messages":[{"role":"user","content":"${a}"}]}`],
  [
    'messages',
    (a, b) =>
      `{"system":[{"type":"text","text":"${b}"},{"type":"text","text":"and"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"${a}"},{"type":"tool_use","id":"1","name":"f","input":{"content":"${b}","text":"${a}"}}]}]}`,
  ],
  ['tokenize', (a, b) => `{"prompt":"${a}","note":"${b}"}`],
]
const request = fc
  .tuple(fc.constantFrom(...shapes), longText, jsonText)
  .map(([[endpoint, shape], a, b]) => ({ endpoint, bytes: bytesOf(shape(a, b)) }))

describe('a request with a long prompt', () => {
  it('a request with a long prompt equals the result of JSON.parse', () => {
    fc.assert(
      fc.property(request, ({ bytes }) => {
        const parsed = parseLong(bytes)
        expect(parsed).not.toBeNull()
        expect(spelledOut(parsed)).toEqual(spelledOut(parseWhole(bytes)))
      }),
      { numRuns: 60 },
    )
  })

  it('a request with a long prompt has the blocks, size and items of its strings, in bytes and by a vocabulary with a template', () => {
    const template = compileTemplate(
      '{% for m in messages %}<{{ m.role }}>{% for part in m.content %}{{ part.text }}{% endfor %}{{ m.reasoning }}{% endfor %}{{ tools | tojson }}{{ documents | tojson }}',
      {},
      () => 0,
    )
    const tokenizer = {
      encode: (text: string, _: boolean, out: { push(id: number): void }) =>
        [...text].forEach((letter) => out.push(letter.codePointAt(0)!)),
    }
    fc.assert(
      fc.property(request, fc.boolean(), ({ endpoint, bytes }, exact) => {
        const measure = (body: unknown) =>
          analyzerOf(exact ? { tokenizer, template } : {}).measure(requestOf(endpoint, body))
        const measured = measure(parseLong(bytes))
        expect(measured.promptTokens).toBeGreaterThan(0)
        expect(measured).toEqual(measure(parseWhole(bytes)))
      }),
      { numRuns: 60 },
    )
  })

  it('a request with a long prompt keeps long texts as bytes only in prompts, and as bytes of the body if they have no escapes', () => {
    const bytes = bytesOf(
      `{"messages":[{"role":"user","name":"${'n'.repeat(5000)}","content":"${'é'.repeat(50_000)}"}],"user":"${'u'.repeat(5000)}"}`,
    )
    const parsed = parseLong(bytes) as { messages: { name: unknown; content: Utf8Text }[]; user: unknown }
    expect(parsed.user).toBe('u'.repeat(5000))
    expect(parsed.messages[0]!.name).toBe('n'.repeat(5000))
    const { content } = parsed.messages[0]!
    expect(content).toBeInstanceOf(Utf8Text)
    expect(content.utf8.buffer).toBe(bytes.buffer)
    expect(String(content)).toBe('é'.repeat(50_000))
  })

  it('a request with a long prompt has as many characters for an estimate of its tokens', () => {
    const bytes = bytesOf(
      `{"messages":[{"content":"${'🙂'.repeat(30_000)}"},{"content":[{"type":"text","text":"${'\\n'.repeat(3_000)}"}]}]}`,
    )
    expect(estimateTokensByChars(parseLong(bytes) as Record<string, unknown>)).toBe(33_000 / 4)
    expect(
      estimateTokensByChars(parseLong(bytesOf(`{"prompt":"${'é'.repeat(80_000)}"}`)) as Record<string, unknown>),
    ).toBe(20_000)
  })
})

describe('a document is parsed whole', () => {
  const text = 'words '.repeat(20_000)

  it.each<[string, string]>([
    ['because it is short', `{"prompt":"${'x'.repeat(10_000)}"}`],
    [
      'because its texts are',
      JSON.stringify({ messages: Array.from({ length: 3_000 }, () => ({ role: 'user', content: 'a few words' })) }),
    ],
    ['because a string looks like the mark of a text', `{"prompt":"${text}","user":"\\u00000"}`],
    [
      'because a string has such a mark in it',
      `{"messages":[{"role":"system","content":" \\u0000"},{"role":"user","content":"${text}"}]}`,
    ],
    ['because a string after the last text does', `{"user":"\\u00000","prompt":"${text}"}`],
    ['because a name is long', `{"${text}":1}`],
    ['because of two members of one name', `{"prompt":"${text}","prompt":"${text}"}`],
    ['because of a member that is no ordinary one', `{"__proto__":"${text}","a":1}`],
    ['because of a message that is no ordinary one', `{"messages":[{"__proto__":{"content":"${text}"}}]}`],
    ['because of half a pair', `{"prompt":"${text}\\ud83d"}`],
    ['because of the other half', `{"prompt":"${text}\\ude42\\ud83d"}`],
    ['because of a byte order mark', `\ufeff{"prompt":"${text}"}`],
  ])('%s', (_, json) => {
    const bytes = bytesOf(json)
    expect(parseLong(bytes)).toBeNull()
    expect(() => parseWhole(bytes)).not.toThrow()
  })

  it('because it is nested deeper than a stack is', () => {
    const deep = 100_000
    const bytes = bytesOf(`{"prompt":"${text.repeat(10)}","x":${'['.repeat(deep)}${']'.repeat(deep)}}`)
    expect(parseLong(bytes)).toBeNull()
    expect(() => parseWhole(bytes)).not.toThrow()
  })

  it('the parser of long documents accepts no document that JSON.parse rejects, and changes none', () => {
    const bytes = bytesOf(
      `{"messages":[{"role":"user","content":"${'plain '.repeat(11_000)}"},{"content":"${'a\\n\\u00e9é '.repeat(1_000)}"}],"stream":true}`,
    )
    const taken = { all: 0, changed: 0 }
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.nat(bytes.length - 1), fc.nat(255)), { minLength: 1, maxLength: 3 }),
        (changes) => {
          const broken = bytes.slice()
          for (const [at, byte] of changes) broken[at] = byte
          const parsed = parseLong(broken)
          taken.all++
          if (parsed === null) return
          taken.changed++
          expect(spelledOut(parsed)).toEqual(parseWhole(broken))
        },
      ),
      { numRuns: 300 },
    )
    expect(taken.changed).toBeGreaterThan(10)
    expect(taken.changed).toBeLessThan(taken.all)
  })

  it.each<[string, string, RegExp]>([
    ['a line break in a text', `{"prompt":"${text}\n"}`, /not valid JSON at character \d+/],
    ['a line break in a text with escapes', `{"prompt":"\\n${text}\n"}`, /not valid JSON at character \d+/],
    ['an escape that is none', `{"prompt":"${text}\\x"}`, /not valid JSON/],
    ['half a code', `{"prompt":"${text}\\u12g4"}`, /not valid JSON/],
    ['a text without an end', `{"prompt":"${text}`, /not valid JSON/],
    ['a text with escapes and without an end', `{"prompt":"\\n${text}\\`, /not valid JSON/],
    ['a list', `["${text}"]`, /must be a JSON object, not an array/],
    ['a text alone', `"${text}"`, /must be a JSON object, not a string/],
  ])('the parser of long documents rejects %s', async (_, json, message) => {
    const source = new Request('http://x', { method: 'POST', body: json })
    await expect(readJson(source, { bodyBytes: 10_000_000 }, { parseLong })).rejects.toThrow(message)
  })

  it('the parser of long documents rejects invalid UTF-8', async () => {
    const body = bytesOf(`{"prompt":"${text}"}`)
    body[500] = 0xff
    await expect(
      readJson(new Request('http://x', { method: 'POST', body }), { bodyBytes: 10_000_000 }, { parseLong }),
    ).rejects.toThrow('not valid UTF-8')
  })
})

describe('a text in JSON', () => {
  it('a text in JSON unescapes like JSON.parse, from any position to the closing quote', () => {
    fc.assert(
      fc.property(fc.nat(9), fc.array(written, { maxLength: 60 }), (before, letters) => {
        const json = `"${letters.join('')}"`
        const bytes = bytesOf(' '.repeat(before) + json + ' '.repeat(before))
        const unescaper = new Unescaper(new DataView(bytes.buffer))
        const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
        expect(unescaper.read(before + 1)).toBe(bytes.length - before - 1)
        const text = unescaper.take()
        expect(decoder.decode(text)).toBe(JSON.parse(json))
        expect(unescaper.read(bytes.length - before)).toBe(-1)
        expect(decoder.decode(text)).toBe(JSON.parse(json))
      }),
    )
  })

  it('a text in JSON detects a byte below 32 at any position of a word', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.integer({ min: 0x20, max: 0xff }), fc.integer({ min: 0x7e, max: 0x82 })), {
          maxLength: 70,
        }),
        fc.option(fc.tuple(fc.nat(69), fc.nat(31))),
        fc.nat(8),
        (codes, odd, from) => {
          const bytes = Uint8Array.from(codes)
          if (odd !== null && odd[0] < bytes.length) bytes[odd[0]] = odd[1]
          const start = Math.min(from, bytes.length)
          expect(hasControl(new DataView(bytes.buffer), start, bytes.length)).toBe(
            bytes.subarray(start).some((byte) => byte < 0x20),
          )
        },
      ),
      { numRuns: 500 },
    )
  })
})

describe('a document of megabytes', () => {
  it('a document of megabytes is equal with yields during its escapes, and yields', async () => {
    let turns = 0
    const inTurns = parseLongInTurns(async () => void turns++)
    // Slices end within escapes, too.
    for (const unit of ['\\u0041', '\\ud83d\\ude42', 'ab\\n', 'x\\\\']) {
      turns = 0
      const bytes = bytesOf(`{"prompt":"${unit.repeat(Math.ceil(6_300_000 / unit.length))}","user":"${unit}"}`)
      const parsed = await inTurns(bytes)
      expect(turns).toBeGreaterThanOrEqual(4)
      expect(spelledOut(parsed)).toEqual(parseWhole(bytes))
    }
  })

  it('a document of megabytes is rejected if it is not JSON, however late that shows', async () => {
    const inTurns = parseLongInTurns(async () => {})
    expect(await inTurns(bytesOf(`{"prompt":"${'\\n'.repeat(3_000_000)}\\x"}`))).toBeNull()
    expect(await inTurns(bytesOf(`{"prompt":"${'\\n'.repeat(3_000_000)}`))).toBeNull()
  })
})
