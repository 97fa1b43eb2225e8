import { describe, expect, it } from 'vitest'
import { rewriteBody } from '../../../src/api/body/body-rewrite.ts'
import { protocolOf } from '../../../src/protocols/protocols.ts'

function prefilled(path: string, json: Record<string, unknown>): unknown {
  const { set, remove } = protocolOf(path)!.splitting!.prefillEdit(json)
  const further = { set: { kv_transfer_params: '{}', ...set }, remove }
  const pieces = rewriteBody(new TextEncoder().encode(JSON.stringify(json)), json, {
    model: null,
    includeUsage: false,
    cacheSalt: null,
    further,
  })
  return JSON.parse(pieces.map((piece) => new TextDecoder().decode(piece)).join(''))
}

describe('the body of a prefill leg', () => {
  it.each([
    ['/v1/chat/completions', { max_tokens: 9 }, { max_tokens: 1 }],
    ['/v1/chat/completions', { max_completion_tokens: 9 }, { max_tokens: 1, max_completion_tokens: 1 }],
    ['/v1/chat/completions', {}, { max_tokens: 1 }],
    [
      '/v1/completions?x=1',
      { stream: true, stream_options: {}, min_tokens: 4, logprobs: 5 },
      { max_tokens: 1, stream: false },
    ],
    [
      '/v1/chat/completions',
      { max_tokens: 9, logprobs: true, top_logprobs: 2, logprob_token_ids: [1], thinking_token_budget: 7 },
      { max_tokens: 1 },
    ],
    ['/v1/messages', { max_tokens: 9, stream: true }, { max_tokens: 1, stream: false }],
    ['/v1/completions', { stream: null, max_tokens: null }, { max_tokens: 1, stream: false }],
    [
      '/v1/responses',
      { max_output_tokens: 9, stream: true, store: true },
      { max_output_tokens: 1, stream: false, store: false },
    ],
    ['/v1/responses', {}, { max_output_tokens: 1, store: false }],
  ])('the body of a prefill leg of %s with %j generates one token', (path, json, limits) => {
    expect(prefilled(path, json)).toEqual({ kv_transfer_params: {}, ...limits })
  })

  it('the body of a prefill leg keeps the fields that determine the prompt', () => {
    const prompt = {
      messages: [1],
      tools: [2],
      tool_choice: 'auto',
      chat_template_kwargs: { a: 1 },
      cache_salt: 's',
      add_generation_prompt: false,
      truncate_prompt_tokens: 7,
    }
    expect(prefilled('/v1/chat/completions', prompt)).toMatchObject(prompt)
  })
})
