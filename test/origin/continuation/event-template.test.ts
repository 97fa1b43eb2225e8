import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OutputRecord } from '../../../src/core/continuation/output-record.ts'
import { EventTemplate } from '../../../src/origin/continuation/event-template.ts'
import { withoutIds } from '../../../src/protocols/read-chunk.ts'

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

interface Plain {
  readonly text: string
  readonly ids: readonly number[]
}

const FORMATS: Readonly<Record<string, (plain: Plain) => object>> = {
  chat: ({ text, ids }) => ({
    id: 'chatcmpl-1',
    choices: [{ index: 0, delta: { content: text }, logprobs: null, finish_reason: null, token_ids: ids }],
  }),
  completions: ({ text, ids }) => ({
    id: 'cmpl-乗',
    choices: [{ index: 0, text, finish_reason: null, stop_reason: null, prompt_token_ids: null, token_ids: ids }],
  }),
}

const eventOf = (chunk: object): Uint8Array => encoder.encode(`data: ${JSON.stringify(chunk)}\n\n`)

/** Takes one event in the middle of other bytes. */
function taken(template: EventTemplate, event: Uint8Array, record: OutputRecord): string | null {
  const bytes = Uint8Array.of(1, 2, 3, ...event, 4, 5)
  const end = template.take(bytes, 3, 3 + event.length, record)
  return end < 0 ? null : decoder.decode(bytes.subarray(3, end))
}

describe.each(Object.keys(FORMATS))('a template of %s events', (name) => {
  const format = FORMATS[name]!
  const template = EventTemplate.of(eventOf(format({ text: ' of', ids: [12, 4711] })))!

  it('reads text and ids as a parser does, and hides the ids', () => {
    const plain = fc.record({
      text: fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed()),
      ids: fc.array(fc.nat({ max: 200_000 }), { minLength: 1, maxLength: 4 }),
    })
    fc.assert(
      fc.property(fc.array(plain, { maxLength: 30 }), (events) => {
        const [record, parsed] = [new OutputRecord(80), new OutputRecord(80)]
        for (const event of events) {
          const json = JSON.stringify(format(event))
          const got = taken(template, eventOf(format(event)), record)
          // An id of one digit has no room for null.
          if (JSON.stringify(event.ids).length < 4) {
            expect(got).toBeNull()
            continue
          }
          expect(got).toBe(`data: ${withoutIds(json)}\n\n`)
          parsed.addIds(event.ids)
          parsed.addText(event.text)
        }
        expect([...record.ids]).toEqual([...parsed.ids])
        expect(record.sentLength).toBe(parsed.sentLength)
        expect(record.tail).toBe(parsed.tail)
        const text = events.map((event) => (JSON.stringify(event.ids).length < 4 ? '' : event.text)).join('')
        expect(record.beginsWithSent(text)).toBe(true)
      }),
    )
  })

  it.each([
    [
      'a finish reason',
      { text: 'x', ids: [123] },
      (json: string) => json.replace('"finish_reason":null', '"finish_reason":"stop"'),
    ],
    ['no ids', { text: 'x', ids: [123] }, (json: string) => json.replace('[123]', 'null')],
    ['another id', { text: 'x', ids: [123] }, (json: string) => json.replace('cmpl-', 'cmpx-')],
    ['ids that are no numbers', { text: 'x', ids: [123] }, (json: string) => json.replace('[123]', '["12"]')],
    ['text that is no JSON', { text: 'x', ids: [123] }, (json: string) => json.replace('"x"', '"\\x"')],
    ['more at its end', { text: 'x', ids: [123] }, (json: string) => json.replace(']}', ']},{}')],
  ])('a template of events leaves an event with %s alone', (_what, plain, change) => {
    const record = new OutputRecord(0)
    const event = encoder.encode(`data: ${change(JSON.stringify(format(plain)))}\n\n`)
    expect(taken(template, event, record)).toBeNull()
    expect([record.tokens, record.sentLength]).toEqual([0, 0])
  })

  it('a template of events is a copy of its event, whose memory changes when ids are hidden', () => {
    const event = eventOf(format({ text: 'some text', ids: [123, 456] }))
    // `slice` of a Node buffer does not copy.
    const memory = Buffer.from(event)
    const own = EventTemplate.of(memory)!
    memory.fill(0)
    expect(taken(own, event, new OutputRecord(0))).toContain('"token_ids":null')
  })

  it('a template of events leaves every beginning of an event alone', () => {
    const event = eventOf(format({ text: 'some text', ids: [123, 456] }))
    for (let length = 0; length < event.length; length++) {
      const record = new OutputRecord(0)
      expect(template.take(event.slice(0, length), 0, length, record)).toBe(-1)
      expect(record.tokens).toBe(0)
    }
  })
})

describe('an event without a template', () => {
  it.each([
    ['a finish reason', { choices: [{ index: 0, delta: { content: 'x' }, finish_reason: 'stop', token_ids: [1] }] }],
    ['no text', { choices: [{ index: 0, delta: {}, finish_reason: null, token_ids: [1] }] }],
    ['a tool call', { choices: [{ delta: { content: 'x', tool_calls: [{ index: 0 }] }, token_ids: [1] }] }],
    ['reasoning', { choices: [{ delta: { content: 'x', reasoning: 'y' }, token_ids: [1] }] }],
    ['prompt ids', { choices: [{ text: 'x', prompt_token_ids: [1], token_ids: [1] }] }],
    ['no ids', { choices: [{ text: 'x', token_ids: null }] }],
    ['ids of another choice', { choices: [{ text: 'x', token_ids: null }, { token_ids: [1] }] }],
  ])('an event without a template is one with %s', (_what, chunk) => {
    expect(EventTemplate.of(eventOf(chunk))).toBeNull()
  })
})
