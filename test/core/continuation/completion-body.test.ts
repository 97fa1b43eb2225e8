import { describe, expect, it } from 'vitest'
import { completionBody, tokensLeft } from '../../../src/core/continuation/completion-body.ts'
import { continuable, type Continuable } from '../../../src/core/continuation/continuable.ts'

const CHAT = '/v1/chat/completions'
const messages = [{ role: 'user', content: 'hi' }]
const input = (body: Record<string, unknown>, outputIds: readonly number[] = [7, 8, 7], path = CHAT) => ({
  request: continuable(path, { messages, prompt: 'hi', ...body }) as Continuable,
  model: 'm',
  promptIds: Uint32Array.of(1, 2),
  outputIds: Uint32Array.from(outputIds),
  maxModelLen: 100,
})

describe('completionBody', () => {
  it('has prompt and output as its prompt, and what is left of the limits', () => {
    expect(completionBody(input({ max_tokens: 10, min_tokens: 5, temperature: 0.3 }))).toMatchObject({
      prompt: [1, 2, 7, 8, 7],
      max_tokens: 7,
      min_tokens: 2,
      temperature: 0.3,
      return_token_ids: true,
      stream: true,
    })
    expect(completionBody(input({ max_tokens: 10, min_tokens: 3 }))).not.toHaveProperty('min_tokens')
  })

  it('always sends a limit, because the endpoint has another default', () => {
    expect(tokensLeft(input({}))).toBe(100 - 2 - 3)
    expect(tokensLeft(input({ max_completion_tokens: 4, max_tokens: 9 }))).toBe(1)
    expect(tokensLeft(input({}, [1, 2, 3], '/v1/completions'))).toBe(13)
    expect(completionBody(input({ max_completion_tokens: 4 }))).not.toHaveProperty('max_completion_tokens')
  })

  it('sends another seed, and the same for the same cut', () => {
    const seedOf = (ids: readonly number[]) => completionBody(input({ seed: 7 }, ids))['seed']
    expect(seedOf([1, 2])).not.toBe(7)
    expect(seedOf([1, 2])).toBe(seedOf([3, 4]))
    expect(seedOf([1, 2])).not.toBe(seedOf([1, 2, 3]))
  })

  it('replaces penalties of the output by biases, within the limit of vLLM', () => {
    const body = completionBody(input({ frequency_penalty: 0.5, presence_penalty: 0.25, logit_bias: { 8: 1, 9: 2 } }))
    expect(body['logit_bias']).toEqual({ 7: -1.25, 8: 0.25, 9: 2 })
    const clamped = completionBody(
      input(
        { frequency_penalty: 2 },
        Array.from({ length: 80 }, () => 7),
      ),
    )
    expect(clamped['logit_bias']).toEqual({ 7: -100 })
  })
})

describe('continuable', () => {
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
  ])('excludes %j', (body, reason) => {
    expect(continuable(CHAT, { messages, ...body })).toBe(reason)
  })

  it('excludes several prompts and other endpoints', () => {
    expect(continuable('/v1/completions', { prompt: ['a', 'b'] })).toBe('several_choices')
    expect(continuable('/v1/responses', { input: 'a' })).toBe('endpoint')
  })

  it('accepts a text, a list of ids, and tools that the model may not call', () => {
    expect(continuable('/v1/completions?x=1', { prompt: [1, 2] })).toMatchObject({ api: 'completions' })
    const tools = continuable(CHAT, {
      messages,
      tools: [{}],
      tool_choice: 'none',
      stop: ['a', 'bc'],
      response_format: { type: 'text' },
    })
    expect(tools).toMatchObject({ api: 'chat', barrier: null, stops: ['a', 'bc'], showsIds: false })
  })
})
