import { describe, expect, it } from 'vitest'
import { unsplittableReason } from '../../src/protocols/prefill-edit.ts'
import { scoresPrompt, sequencesOf } from '../../src/protocols/request-fields.ts'

describe('a request that cannot be split', () => {
  it.each([
    ['n', { n: 2 }],
    ['n as the engine reads it', { n: '2' }],
    ['best_of', { best_of: 3 }],
    ['beam search', { use_beam_search: true }],
    ['echo', { echo: true }],
    ['echo', { echo: 1 }],
    ['echo', { echo: 'true' }],
    ['prompt_logprobs', { prompt_logprobs: 0 }],
    ['prompt_logprobs', { prompt_logprobs: '1' }],
    ['background', { background: true }],
    ['several prompts', { prompt: ['a', 'b'] }],
    ['several prompts of ids', { prompt: [[1, 2], [3]] }],
  ])('a request that cannot be split has %s: %j', (_name, json) => {
    expect(unsplittableReason(json)).not.toBeNull()
  })

  it.each([
    {},
    { n: 1, best_of: 1, echo: false, prompt_logprobs: null, use_beam_search: false, background: false },
    { n: null, echo: null },
    { n: '1', echo: 0, use_beam_search: 'false' },
    { prompt: [1, 2, 3] },
    { prompt: ['a'] },
    { prompt: [[1, 2]] },
    { logprobs: 5 },
    { n: 'many' },
  ])('a request that cannot be split excludes %j', (json) => {
    expect(unsplittableReason(json)).toBeNull()
  })
})

describe('a prompt that is computed whole, whatever is cached', () => {
  it.each([
    { prompt_logprobs: 0 },
    { prompt_logprobs: 5 },
    { echo: true, logprobs: 0 },
    { echo: 'yes', logprobs: 1, prompt_logprobs: null },
    { echo: true, messages: [] },
  ])('a prompt that is computed whole, whatever is cached is %j', (json) => {
    expect(scoresPrompt(json)).toBe(true)
  })

  it.each([
    {},
    { prompt_logprobs: null },
    { logprobs: 5 },
    { echo: true },
    { echo: true, logprobs: null },
    { echo: false, logprobs: 5 },
    { echo: false, messages: [] },
  ])('a prompt that is computed whole, whatever is cached is not %j', (json) => {
    expect(scoresPrompt(json)).toBe(false)
  })
})

it.each([
  [1, {}],
  [1, { n: null, prompt: 'a' }],
  [4, { n: 4 }],
  [4, { n: '4' }],
  [1, { n: 'many' }],
  [1, { n: -3 }],
  [1, { n: 1.5 }],
  [3, { prompt: ['a', 'b', 'c'] }],
  [6, { prompt: [[1], [2], [3]], n: 2 }],
  [2, { prompt: [1, 2, 3], n: 2 }],
  // The value is added to sums over requests, so an impossible value must not dominate them.
  [16_384, { n: Number.MAX_SAFE_INTEGER }],
  [16_384, { n: 16_384, prompt: ['a', 'b'] }],
])('%d answers are made side by side of %j', (sequences, json) => {
  expect(sequencesOf(json)).toBe(sequences)
})
