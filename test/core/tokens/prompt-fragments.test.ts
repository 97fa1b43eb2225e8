import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isTooFragmented } from '../../../src/core/tokens/prompt-fragments.ts'

const IDS = ['prompt', 'input']
const look = (body: Record<string, unknown>): boolean => isTooFragmented(body, JSON.stringify(body).length, IDS)
const many = (piece: unknown, count = 40_000): unknown[] => Array.from({ length: count }, () => piece)
const say = (content: unknown) => ({ messages: [{ role: 'user', content }] })

describe('a body', () => {
  it.each([
    ['of empty parts', say(many({}))],
    ['of empty texts', { prompt: many('') }],
    ['of short messages', { messages: many({ role: 'user', content: '' }, 15_000) }],
    ['of parts behind a number', say([1, ...many({})])],
    ['of parts inside a part', say([{ type: 'tool_result', content: many({}) }])],
    ['of fields', say([Object.fromEntries(many(0).map((_, at) => [`k${at}`, 1]))])],
    ['of short lists of ids', { input: many([1]) }],
    ['of numbers that are no prompt', { ...say('a'), chat_template_kwargs: { list: many(1) } }],
    ['of numbers in a tool', { ...say('a'), tools: [{ function: { name: 'f', parameters: { enum: many(1) } } }] }],
    ['of numbers deep in a prompt', { prompt: [[many(1)]] }],
  ])('a body is in fragments: %s', (_, body) => {
    expect(look(body)).toBe(true)
  })

  it.each([
    ['of one long text', { prompt: 'a'.repeat(1_000_000) }],
    ['of a million ids', { prompt: many(7, 1_000_000) }],
    ['of lists of a million ids', { input: [many(7, 500_000), many(8, 500_000)] }],
    ['of a thousand long messages', { messages: many({ role: 'user', content: 'b'.repeat(500) }, 1_000) }],
    ['of a long text kept as bytes', say({ utf8: new Uint8Array(200_000) })],
    ['that is empty', {}],
  ])('a body is not: %s', (_, body) => {
    expect(isTooFragmented(body, 1_000_000, IDS)).toBe(false)
  })

  it('a body with too many keys is rejected before its values are read', () => {
    const named = Object.fromEntries(many(0).map((_, at) => [`k${at}`, 1]))
    const unread = new Proxy(named, { get: () => expect.fail('it was') })
    expect(isTooFragmented(unread, 1_000_000, IDS)).toBe(true)
  })

  it('a body that is too short for so many pieces is not read', () => {
    const unread = new Proxy({}, { ownKeys: () => expect.fail('it was') })
    expect(isTooFragmented(unread, 60_000, IDS)).toBe(false)
  })

  it('a body of any shape and depth is handled without errors', () => {
    const deep = JSON.parse(`${'['.repeat(20_000)}${']'.repeat(20_000)}`) as unknown
    expect(isTooFragmented({ deep }, 1_000_000, IDS)).toBe(false)
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        (body) => typeof isTooFragmented(body, 1_000_000, IDS) === 'boolean',
      ),
    )
  })
})
