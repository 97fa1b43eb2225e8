import { describe, expect, it } from 'vitest'
import type { MidStream } from '../../src/core/continuation/continuable.ts'
import { protocolOf } from '../../src/protocols/protocols.ts'

const CHAT = '/v1/chat/completions'
const messages = [{ role: 'user', content: 'hi' }]
const continuable = (path: string, body: Record<string, unknown>, mode: MidStream = 'ids') =>
  protocolOf(path)!.continuable(body, mode)

describe('a continuation', () => {
  it.each([
    [{ n: 2 }, 'several_choices'],
    [{ use_beam_search: true }, 'several_choices'],
    [{ response_format: { type: 'json_object' } }, 'structured_output'],
    [{ guided_json: {} }, 'structured_output'],
    [{ tool_choice: 'required', tools: [{}] }, 'tools'],
    [{ tools: [{}] }, 'tools'],
    [{ tool_choice: 'auto', tools: [{}] }, 'tools'],
    [{ logprobs: true }, 'logprobs'],
    [{ include_reasoning: false }, 'reasoning'],
    [{ echo: true }, 'echo'],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, 'multimodal'],
  ])('a continuation excludes %j', (body, reason) => {
    expect(continuable(CHAT, { messages, ...body })).toBe(reason)
  })

  it('a continuation excludes several prompts and other endpoints', () => {
    expect(continuable('/v1/completions', { prompt: ['a', 'b'] })).toBe('several_choices')
    expect(continuable('/v1/responses', { input: 'a' })).toBe('endpoint')
  })

  it('a continuation accepts a text, a list of ids, and tools that the model may not call', () => {
    expect(continuable('/v1/completions?x=1', { prompt: [1, 2] })).toMatchObject({ defaultTokens: 16 })
    const tools = continuable(CHAT, {
      messages,
      tools: [{}],
      tool_choice: 'none',
      stop: ['a', 'bc'],
      response_format: { type: 'text' },
    })
    expect(tools).toMatchObject({ defaultTokens: null, barrier: null, stops: ['a', 'bc'], showsIds: false })
  })
})

describe('a repetition', () => {
  const chat = { messages: [{ role: 'user', content: 'x' }] }
  const format = { ...chat, response_format: { type: 'json_object' } }

  it.each([
    ['greedy', { temperature: 0 }],
    ['seeded', { seed: 7 }],
  ])('a repetition allows to repeat a %s request with a grammar in the mode replay only', (_name, more) => {
    const path = '/v1/chat/completions'
    expect(continuable(path, { ...format, ...more }, 'replay')).toMatchObject({
      repeats: true,
      barrier: 'structured_output',
    })
    expect(continuable(path, { ...format, ...more }, 'ids')).toBe('structured_output')
  })

  it.each([
    [{ ...format }, 'structured_output'],
    [{ ...format, temperature: 0, n: 2 }, 'several_choices'],
    [{ ...chat, temperature: 0, include_reasoning: false }, 'reasoning'],
    [{ ...chat, temperature: 0, logprobs: true }, 'logprobs'],
  ])('a repetition does not repeat %j', (body, reason) => {
    expect(continuable('/v1/chat/completions', body, 'replay')).toBe(reason)
  })
})
