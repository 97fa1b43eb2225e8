import { describe, expect, it } from 'vitest'
import { completionBody, tokensLeft } from '../../../src/core/continuation/completion-body.ts'
import type { Continuable } from '../../../src/core/continuation/continuable.ts'
import { protocolOf } from '../../../src/protocols/protocols.ts'

const CHAT = '/v1/chat/completions'
const messages = [{ role: 'user', content: 'hi' }]
const input = (body: Record<string, unknown>, outputIds: readonly number[] = [7, 8, 7], path = CHAT) => ({
  request: protocolOf(path)!.continuable({ messages, prompt: 'hi', ...body }, 'ids') as Continuable,
  model: 'm',
  promptIds: Uint32Array.of(1, 2),
  outputIds: Uint32Array.from(outputIds),
  maxModelLen: 100,
})

describe('completionBody', () => {
  it('completionBody has prompt and output as its prompt, and what is left of the limits', () => {
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
    expect(tokensLeft(input({ max_tokens: null }, [1, 2, 3], '/v1/completions'))).toBe(100 - 2 - 3)
    expect(completionBody(input({ max_completion_tokens: 4 }))).not.toHaveProperty('max_completion_tokens')
  })

  it('completionBody sends another seed, and the same for the same cut', () => {
    const seedOf = (ids: readonly number[]) => completionBody(input({ seed: 7 }, ids))['seed']
    expect(seedOf([1, 2])).not.toBe(7)
    expect(seedOf([1, 2])).toBe(seedOf([3, 4]))
    expect(seedOf([1, 2])).not.toBe(seedOf([1, 2, 3]))
  })

  it('completionBody replaces penalties of the output by biases, within the limit of vLLM', () => {
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
