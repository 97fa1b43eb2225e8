import { describe, expect, it } from 'vitest'
import { copiedFields, unsplittableByLmcache } from '../../../src/origin/disagg/lmcache-fields.ts'
import { protocolOf } from '../../../src/protocols/protocols.ts'

const chat = '/v1/chat/completions'
const completions = '/v1/completions'
const messages = [{ role: 'user', content: [{ type: 'text', text: 'hi' }] }]
const why = (path: string, json: object, chats = true) =>
  unsplittableByLmcache(protocolOf(path)!, json as Record<string, unknown>, chats)

describe('lmcache splits', () => {
  it.each([
    [
      'a plain chat',
      chat,
      {
        model: 'm',
        messages,
        stream: true,
        stream_options: { include_usage: true },
        temperature: 0.2,
        top_p: 0.9,
        seed: 7,
        max_tokens: 9,
        user: 'u',
      },
    ],
    ['a chat without a limit', chat, { messages }],
    [
      'what says what is so anyway',
      chat,
      {
        messages,
        n: 1,
        stop: null,
        tools: [],
        tool_choice: 'none',
        presence_penalty: 0,
        frequency_penalty: 0,
        logprobs: false,
        response_format: { type: 'text' },
      },
    ],
    ['a completion', completions, { prompt: 'hi', min_tokens: 2, ignore_eos: true, cache_salt: 's' }],
    ['two tokens', chat, { messages, max_tokens: 2 }],
  ])('%s', (_name, path, json) => {
    expect(why(path, json)).toBeNull()
  })

  it.each([
    ['tools', chat, { messages, tools: [{}] }, /tools/],
    ['a forced tool', chat, { messages, tool_choice: 'required' }, /tool_choice/],
    ['reasoning', chat, { messages, reasoning_effort: 'low' }, /reasoning_effort/],
    [
      'reasoning switched off, which is part of the prompt',
      chat,
      { messages, reasoning_effort: 'none' },
      /reasoning_effort/,
    ],
    [
      'thinking switched by the template',
      chat,
      { messages, chat_template_kwargs: { enable_thinking: true } },
      /reasoning/,
    ],
    ['a JSON schema', chat, { messages, response_format: { type: 'json_schema' } }, /response_format/],
    ['structured outputs', completions, { prompt: 'x', structured_outputs: { regex: 'a' } }, /structured_outputs/],
    ['stop strings, which may straddle the first token', chat, { messages, stop: ['END'] }, /stop/],
    ['penalties over the output', chat, { messages, frequency_penalty: 0.1 }, /frequency_penalty/],
    ['logprobs', completions, { prompt: 'x', logprobs: 1 }, /logprobs/],
    ['images', chat, { messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, /multimodal/],
    ['one token, which needs no second leg', chat, { messages, max_completion_tokens: 1, max_tokens: 99 }, /one token/],
    [
      'usage in every chunk',
      chat,
      { messages, stream: true, stream_options: { continuous_usage_stats: true } },
      /continuous/,
    ],
    ['a field nobody has heard of', chat, { messages, brand_new: 1 }, /brand_new/],
    ['a completion without a prompt', completions, { prompt_embeds: 'x' }, /prompt/],
    ['other endpoints', '/v1/responses', { input: 'x' }, /only/],
  ])('but not %s', (_name, path, json, reason) => {
    expect(why(path, json)).toMatch(reason)
  })

  it('a split by LMCache excludes chats if engines run a parser', () => {
    expect(why(chat, { messages }, false)).toMatch(/split\.lmcache\.chat/)
    expect(why(completions, { prompt: 'x' }, false)).toBeNull()
  })
})

describe('the limit of an answer', () => {
  it.each([
    [chat, {}, null],
    [chat, { max_tokens: 5 }, 5],
    [chat, { max_tokens: 5, max_completion_tokens: 3 }, 3],
    [chat, { max_tokens: 5, max_completion_tokens: null }, 5],
    // The default of completions is a number, and null means none.
    [completions, {}, 16],
    [completions, { max_tokens: null }, null],
    [completions, { max_tokens: 5 }, 5],
  ])('the limit of an answer of %s with %j is %j', (path, json, limit) => {
    expect(protocolOf(path)!.bounds.limit(json)).toBe(limit)
  })
})

it('the fields for LMCache are those of both legs, without null', () => {
  expect(
    copiedFields({ model: 'm', temperature: 0, seed: null, messages, stop: [], stream: true, cache_salt: 's' }),
  ).toEqual({ model: 'm', temperature: 0, cache_salt: 's' })
})
