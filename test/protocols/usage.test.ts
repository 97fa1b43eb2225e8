import { describe, expect, it } from 'vitest'
import { AnswerReader, usageOfAnswer } from '../../src/protocols/answer.ts'
import { completeUsage, NO_USAGE, usedTokens } from '../../src/protocols/reported-usage.ts'
import { protocolOf } from '../../src/protocols/protocols.ts'
import { chatChunk, encode, named, readerOf, ROLE } from './read-stream.ts'

const messages = protocolOf('/v1/messages')!
const usageOf = (fields: object) => messages.usage(fields as Record<string, unknown>)

const sumOf = ({ promptTokens, outputTokens }: ReturnType<typeof usedTokens>) => promptTokens + outputTokens

describe('usage of messages (S1)', () => {
  it('usage of messages (S1) adds cached tokens to the prompt', () => {
    const first = { input_tokens: 20000, output_tokens: 10, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
    const second = {
      input_tokens: 800,
      output_tokens: 10,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 19200,
    }
    expect(usageOf(first)).toEqual({ promptTokens: 20000, cachedTokens: 0, outputTokens: 10 })
    expect(usageOf(second)).toEqual({ promptTokens: 20000, cachedTokens: 19200, outputTokens: 10 })
  })

  it('usage of messages (S1) adds created tokens, as vLLM 0.32 and 0.33 report them', () => {
    const recorded = {
      input_tokens: 12,
      output_tokens: 46,
      cache_read_input_tokens: 28592,
      cache_creation_input_tokens: 48,
    }
    expect(usageOf(recorded).promptTokens).toBe(28652)
    expect(usageOf({ input_tokens: 11, output_tokens: 4, cache_creation_input_tokens: 1440 }).promptTokens).toBe(1451)
    expect(usageOf({ input_tokens: 11, output_tokens: 4, cache_read_input_tokens: 1440 }).promptTokens).toBe(1451)
  })

  it('usage of messages (S1) takes input_tokens for the whole prompt if the other fields are absent, and cached tokens for unknown', () => {
    expect(usageOf({ input_tokens: 28652, output_tokens: 46 })).toEqual({
      promptTokens: 28652,
      cachedTokens: null,
      outputTokens: 46,
    })
  })

  it.each([
    [
      'whole prompt at the start',
      { input_tokens: 28652, output_tokens: 0 },
      { input_tokens: 12, output_tokens: 46, cache_read_input_tokens: 28592, cache_creation_input_tokens: 48 },
      28652,
    ],
    [
      'S1 as a stream',
      { input_tokens: 20000, output_tokens: 0 },
      { input_tokens: 800, output_tokens: 46, cache_read_input_tokens: 19200 },
      20000,
    ],
    [
      'output alone at the end',
      { input_tokens: 5, cache_read_input_tokens: 100, output_tokens: 1 },
      { output_tokens: 46 },
      105,
    ],
    [
      'cached tokens at the start alone',
      { input_tokens: 5, cache_read_input_tokens: 100 },
      { input_tokens: 5, output_tokens: 46 },
      105,
    ],
  ])('usage of messages (S1) of a stream: %s', (_case, start, end, prompt) => {
    const event = (json: object): string => named(json as { type: string })
    const usage = readerOf(
      '/v1/messages',
      event({ type: 'message_start', message: { usage: start } }) +
        event({ type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: end }),
    ).usage
    expect([usage?.promptTokens, usage?.outputTokens]).toEqual([prompt, 46])
  })
})

describe('usage that a client could choose (O2)', () => {
  const tool = {
    type: 'function',
    name: 'f',
    parameters: { type: 'object', properties: { usage: { input_tokens: 1, output_tokens: 0 } } },
  }

  it('usage that a client could choose (O2) is not read from tools that response.created echoes', () => {
    const created = named({ type: 'response.created', response: { tools: [tool], usage: null } } as { type: string })
    const delta = named({ type: 'response.output_text.delta', delta: 'a' } as { type: string })
    const reader = readerOf('/v1/responses', created + delta.repeat(1000))
    expect([reader.usage, reader.outputs]).toEqual([null, 1000])
    expect(sumOf(usedTokens(reader.usage, { promptTokens: 14, outputEvents: reader.outputs }))).toBe(1014)
  })

  it('usage that a client could choose (O2) is not read from tools in the last event', () => {
    const usage = { input_tokens: 14, output_tokens: 4000 }
    for (const response of [
      { tools: [tool], usage },
      { usage, tools: [tool] },
    ]) {
      const reader = readerOf('/v1/responses', named({ type: 'response.completed', response } as { type: string }))
      expect(reader.usage).toEqual({ promptTokens: 14, cachedTokens: null, outputTokens: 4000 })
    }
  })

  it('usage that a client could choose (O2) is not read from tools behind the usage of a JSON answer', () => {
    const forged = { ...tool, parameters: { properties: { usage: { input_tokens: 7, output_tokens: 8888 } } } }
    const answer = { id: 'resp_1', usage: { input_tokens: 14, output_tokens: 20 }, tools: [forged] }
    const reader = new AnswerReader(protocolOf('/v1/responses')!.usage)
    reader.take(encode(JSON.stringify(answer)))
    expect(reader.usage).toEqual({ promptTokens: 14, cachedTokens: null, outputTokens: 20 })
  })

  it('usage that a client could choose (O2) is not read from negative or implausible counts', () => {
    expect(usageOf({ input_tokens: -1, output_tokens: 1e308 })).toEqual(NO_USAGE)
  })
})

describe('tokens to charge (S16, S17, O27)', () => {
  const own = { promptTokens: 14, outputEvents: 500 }

  it('tokens to charge are prompt and output events of a message closed after 500 events', () => {
    const start = named({ type: 'message_start', message: { usage: { input_tokens: 14, output_tokens: 0 } } } as {
      type: string
    })
    const delta = named({ type: 'content_block_delta', delta: { type: 'text_delta', text: 'a' } } as { type: string })
    const reader = readerOf('/v1/messages', start + named({ type: 'content_block_start' }) + delta.repeat(500))
    expect(sumOf(usedTokens(reader.usage, { promptTokens: 20, outputEvents: reader.outputs }))).toBe(514)
  })

  it('tokens to charge are prompt and output events of a chat closed after 3 events', () => {
    const reader = readerOf('/v1/chat/completions', ROLE + chatChunk({ content: 'a' }) + chatChunk({ content: 'b' }))
    expect(sumOf(usedTokens(reader.usage, { promptTokens: 10, outputEvents: reader.outputs }))).toBe(12)
  })

  it('tokens to charge are the reported ones of a complete answer', () => {
    expect(sumOf(usedTokens({ promptTokens: 70, cachedTokens: null, outputTokens: 9 }, own))).toBe(79)
    expect(sumOf(usedTokens(null, own))).toBe(514)
  })
})

describe('usage of other protocols', () => {
  it('usage of other protocols has unknown counts where a field is absent', () => {
    const chat = protocolOf('/v1/chat/completions')!
    expect(chat.usage({ prompt_tokens: 9, prompt_tokens_details: null })).toEqual({
      promptTokens: 9,
      cachedTokens: null,
      outputTokens: null,
    })
    expect(usageOfAnswer({ usage: null }, chat.usage)).toBeNull()
    expect(completeUsage(chat.usage({ completion_tokens: 9 }))).toBeNull()
  })

  it('usage of other protocols has no output for embeddings, and total_tokens as prompt of a rerank', () => {
    expect(protocolOf('/v1/embeddings')!.usage({ prompt_tokens: 5, total_tokens: 5 }).outputTokens).toBe(0)
    expect(protocolOf('/rerank')!.usage({ total_tokens: 12 }).promptTokens).toBe(12)
  })
})
