import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { PromptProfile } from '../../../src/core/tokens/prompt-analyzer.ts'
import type { PromptRequest } from '../../../src/core/tokens/prompt-request.ts'
import { encodeUtf8, analyzerOf, pairs, requestOf } from './support.ts'

const measure = (endpoint: string, body: unknown, rest: Partial<PromptRequest> = {}): PromptProfile =>
  analyzerOf().measure(requestOf(endpoint, body, rest))

const chat = (...contents: unknown[]): unknown => ({
  messages: contents.map((content, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content })),
})
const picture = (url: string): unknown =>
  chat([
    { type: 'image_url', image_url: { url } },
    { type: 'text', text: 'what is this? '.repeat(10) },
  ])

describe('prompts measured in bytes', () => {
  it('count UTF-8 bytes over the ratio, cut into chunks of block size times four bytes', () => {
    const { promptTokens, tokenSource, blocks, promptBytes } = measure('completions', { prompt: 'é'.repeat(100) })
    expect({ promptTokens, tokenSource, promptBytes, blocks: blocks.length / 2 }).toEqual({
      promptTokens: 50,
      tokenSource: 'bytes',
      promptBytes: 200,
      blocks: 3,
    })
  })

  it('prompts measured in bytes have no blocks beyond 8 MiB, and count to their end', () => {
    const bytes = 8 * 1024 * 1024
    const prompt = 'abcd'.repeat(bytes / 4)
    const whole = measure('completions', { prompt })
    const longer = measure('completions', { prompt: [`${prompt}ef`, 'x'.repeat(98)] })
    expect(
      [whole, longer].map(({ blocks, promptTokens, promptBytes }) => ({
        blocks: blocks.length / 2,
        promptTokens,
        promptBytes,
      })),
    ).toEqual([
      { blocks: bytes / 64, promptTokens: bytes / 4, promptBytes: bytes },
      { blocks: bytes / 64, promptTokens: bytes / 4 + 25, promptBytes: bytes + 100 },
    ])
    expect(longer.blocks.at(-1)).toBe(whole.blocks.at(-1))
  })

  it('prompts measured in bytes have equal blocks if and only if whole chunks of text are equal', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 300 }),
        fc.string({ unit: 'binary', maxLength: 300 }),
        fc.nat(300),
        (a, b, shared) => {
          const other = a.slice(0, shared) + b
          const [left, right] = [a, other].map((prompt) => pairs(measure('completions', { prompt }).blocks)) as [
            string[],
            string[],
          ]
          const [leftBytes, rightBytes] = [a, other].map(utf8) as [Buffer, Buffer]
          expect(left).toHaveLength(Math.floor(leftBytes.length / 64))
          expect(left.map((hash, i) => hash === right[i])).toEqual(
            left.map(
              (_, i) =>
                rightBytes.length >= (i + 1) * 64 &&
                leftBytes.subarray(0, (i + 1) * 64).equals(rightBytes.subarray(0, (i + 1) * 64)),
            ),
          )
        },
      ),
    )
  })

  it('prompts measured in bytes keep their blocks when a conversation grows', () => {
    const first = 'tell me a long story '.repeat(30)
    const before = pairs(measure('chat', chat(first)).blocks)
    const after = pairs(measure('chat', chat(first, 'once upon a time '.repeat(20), 'go on')).blocks)
    // All but the last block, which had the marker of the next response.
    expect(after.slice(0, before.length - 1)).toEqual(before.slice(0, -1))
    expect(after.length).toBeGreaterThan(before.length)
  })

  it('prompts measured in bytes keep their blocks while the ratio is learned, and only the count follows it', () => {
    const analyzer = analyzerOf()
    const request = requestOf('completions', { prompt: 'word '.repeat(400) })
    const before = analyzer.measure(request)
    for (let i = 0; i < 200; i++) analyzer.learn(before, 1000)
    const after = analyzer.measure(request)
    expect(pairs(after.blocks)).toEqual(pairs(before.blocks))
    expect(before.promptTokens).toBe(500)
    expect(after.promptTokens).toBeGreaterThan(970)
    expect(after.promptTokens).toBeLessThan(1030)
  })

  it('prompts measured in bytes fit a ratio that one outlier changes little', () => {
    const analyzer = analyzerOf()
    for (let i = 0; i < 100; i++) analyzer.learn({ promptBytes: 4000, items: 0 }, 1000)
    analyzer.learn({ promptBytes: 15_000, items: 0 }, 1000)
    expect(analyzer.bytesPerToken).toBeCloseTo(4, 0)
    for (const absurd of [0, -5, Number.NaN, 1, 1e9]) analyzer.learn({ promptBytes: 4000, items: 0 }, absurd)
    expect(Math.abs(analyzer.bytesPerToken - 4)).toBeLessThan(0.25)
  })

  it('prompts measured in bytes do not fit the ratio to prompts with images or token ids', () => {
    const analyzer = analyzerOf()
    analyzer.learn({ promptBytes: 4000, items: 1 }, 400)
    analyzer.learn({ promptBytes: null, items: 0 }, 400)
    expect(analyzer.bytesPerToken).toBe(4)
  })

  it('prompts measured in bytes are measured equally for every form of a text message', () => {
    const text = 'the same text '.repeat(20)
    const whole = pairs(measure('chat', chat(text)).blocks)
    expect(pairs(measure('chat', chat([{ type: 'text', text }])).blocks)).toEqual(whole)
    expect(pairs(measure('responses', { input: text }).blocks)).toEqual(whole)
    expect(
      pairs(
        measure('responses', { input: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text }] }] })
          .blocks,
      ),
    ).toEqual(whole)
    expect(
      pairs(measure('messages', { messages: [{ role: 'user', content: [{ type: 'text', text }] }] }).blocks),
    ).toEqual(whole)
  })

  it('prompts measured in bytes differ by an image’s bytes, not by its position in the request', () => {
    const one = measure('chat', picture(`data:image/png;base64,${'A'.repeat(5000)}`))
    const again = measure('chat', picture(`data:image/png;base64,${'A'.repeat(5000)}`))
    const other = measure('chat', picture(`data:image/png;base64,${'A'.repeat(4999)}B`))
    expect(one.items).toBe(1)
    expect(pairs(one.blocks)).toEqual(pairs(again.blocks))
    expect(pairs(one.blocks)[0]).not.toBe(pairs(other.blocks)[0])
    expect(one.promptTokens).toBeLessThan(100)
  })

  it('prompts measured in bytes differ by a large image’s length and by samples of it', () => {
    const large = 'AbCd'.repeat(250_000)
    const first = (url: string): string | undefined => pairs(measure('chat', picture(url)).blocks)[0]
    expect(first(large)).toBe(first('AbCd'.repeat(250_000)))
    const others = [
      `x${large.slice(1)}`,
      `${large.slice(0, -1)}x`,
      `${large}AbCd`,
      large.slice(0, 500_000) + large.slice(500_000, 520_000).toLowerCase() + large.slice(520_000),
    ]
    for (const other of others) expect(first(other)).not.toBe(first(large))
  })

  it('prompts measured in bytes count tools, which templates print', () => {
    const tools = [
      { type: 'function', function: { name: 'f', description: 'd'.repeat(400), parameters: { type: 'object' } } },
    ]
    const without = measure('chat', chat('hi'))
    const withTools = measure('chat', { ...(chat('hi') as object), tools })
    expect(withTools.promptTokens - without.promptTokens).toBeGreaterThan(100)
  })

  it('prompts measured in bytes share no tools behind different system messages, as in most templates', () => {
    const tools = [
      { type: 'function', function: { name: 'f', description: 'd'.repeat(4000), parameters: { type: 'object' } } },
    ]
    const user = { role: 'user', content: 'hi' }
    const firstBlock = (messages: readonly unknown[]) => pairs(measure('chat', { messages, tools }).blocks)[0]
    const [here, there] = ['here', 'there'].map((at) => firstBlock([{ role: 'system', content: `Work ${at}.` }, user]))
    expect(here).not.toBe(there)
    const [one, other] = ['a', 'b'].map((content) => firstBlock([{ role: 'user', content }]))
    expect(one).toBe(other)
  })
})

describe('audio uploads', () => {
  it('audio uploads count their possible 30-second windows, whatever ratio was fitted, and have no blocks', () => {
    const analyzer = analyzerOf()
    analyzer.learn({ promptBytes: 8_000, items: 0 }, 1_000)
    const tokens = (bodyBytes: number) => analyzer.measure(requestOf('audio', { model: 'm' }, { bodyBytes }))
    expect([1, 480_000, 480_001, 25_000_000].map((bytes) => tokens(bytes).promptTokens)).toEqual([
      1_500, 1_500, 3_000, 79_500,
    ])
    expect(tokens(9)).toMatchObject({
      tokenSource: 'bytes',
      promptBytes: null,
      items: 0,
      inexact: null,
      blocks: new Uint32Array(0),
    })
  })
})

describe('prompts given as ids', () => {
  it('prompts given as ids are counted exactly, whether or not the pool has a vocabulary', () => {
    const ids = Array.from({ length: 40 }, (_, i) => i)
    expect(measure('completions', { prompt: ids })).toMatchObject({
      promptTokens: 40,
      tokenSource: 'ids',
      promptBytes: null,
    })
    expect(measure('completions', { prompt: ids }).blocks.length / 2).toBe(2)
    expect(measure('embeddings', { input: [ids, ids] })).toMatchObject({ promptTokens: 80, tokenSource: 'ids' })
  })

  it('prompts given as ids never share a block with the same bytes as text', () => {
    const text = 'abcd'.repeat(16)
    const words = Array.from(new Uint32Array(new TextEncoder().encode(text).buffer))
    expect(pairs(measure('completions', { prompt: words }).blocks)).not.toEqual(
      pairs(measure('completions', { prompt: text }).blocks),
    )
  })

  it('prompts given as ids are returned on request', () => {
    expect(measure('completions', { prompt: [1, 2, 3] }).ids).toBeNull()
    expect([...(measure('completions', { prompt: [1, 2, 3] }, { withIds: true }).ids ?? [])]).toEqual([1, 2, 3])
  })
})

describe('unreadable bodies', () => {
  it.each<[string, string, unknown]>([
    ['no messages', 'chat', {}],
    ['messages that are none', 'chat', { messages: 'hi' }],
    ['a message without a role', 'chat', { messages: [{ content: 'hi' }] }],
    ['a null message', 'messages', { messages: [null] }],
    ['a prompt that is a number', 'completions', { prompt: 5 }],
    ['a prompt of strings and ids', 'completions', { prompt: ['a', 1] }],
    ['negative ids', 'completions', { prompt: [-1] }],
    ['no input', 'responses', {}],
    ['an endpoint without a prompt', 'speech', { prompt: 'hi' }],
  ])('unreadable bodies are counted by their size: %s', (_, endpoint, body) => {
    expect(measure(endpoint, body, { bodyBytes: 400 })).toMatchObject({
      promptTokens: 100,
      tokenSource: 'bytes',
      promptBytes: null,
    })
  })

  it('unreadable bodies never throw, for any JSON', () => {
    const endpoints = [
      'completions',
      'chat',
      'responses',
      'messages',
      'embeddings',
      'rerank',
      'score',
      'tokenize',
      'generate',
      'speech',
    ] as const
    const fields = fc.constantFrom(
      'prompt',
      'messages',
      'input',
      'tools',
      'system',
      'role',
      'content',
      'type',
      'text',
      'query',
      'documents',
      'function',
      'tool_calls',
    )
    const anything = fc.letrec((tie) => ({
      value: fc.oneof(
        { depthSize: 'medium' },
        fc.jsonValue(),
        fc.array(tie('value'), { maxLength: 4 }),
        fc.dictionary(fields, tie('value'), { maxKeys: 5 }),
      ),
    })).value
    fc.assert(
      fc.property(fc.constantFrom(...endpoints), fc.dictionary(fields, anything), (endpoint, body) => {
        const { promptTokens, blocks } = measure(endpoint, body, { bodyBytes: 10 })
        expect(promptTokens).toBeGreaterThanOrEqual(0)
        expect(blocks.length % 2).toBe(0)
      }),
    )
  })

  it('unreadable bodies do not exhaust the stack, at any depth', () => {
    const depth = 100_000
    const deep: unknown = JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`)
    const body = { messages: [{ role: 'user', content: [{ type: 'x', deep }] }], tools: [deep] }
    expect(measure('chat', body).items).toBe(1)
  })
})

function utf8(text: string): Buffer {
  const bytes = Buffer.alloc(text.length * 3)
  return bytes.subarray(0, encodeUtf8(text, bytes))
}
