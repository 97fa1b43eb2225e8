import { describe, expect, it } from 'vitest'
import { estimateTokensByChars } from '../../../src/api/prompt/split-estimate.ts'

describe('a quarter of the characters', () => {
  it.each([
    ['a text', { prompt: 'x'.repeat(400) }, 100],
    ['one text in a list', { prompt: ['x'.repeat(400)] }, 100],
    ['ids', { prompt: [1, 2, 3] }, 3],
    ['ids in a list', { prompt: [[1, 2, 3]] }, 3],
    [
      'messages',
      {
        messages: [
          { content: 'x'.repeat(200) },
          {
            content: [
              { type: 'text', text: 'x'.repeat(200) },
              { type: 'image_url', image_url: {} },
            ],
          },
          null,
          { content: null },
        ],
      },
      100,
    ],
    [
      'Anthropic’s system prompt and messages',
      { system: 'x'.repeat(200), messages: [{ content: 'x'.repeat(200) }] },
      100,
    ],
    [
      'Anthropic’s system prompt in blocks',
      { system: [{ type: 'text', text: 'x'.repeat(396) }], messages: [{ content: 'xxxx' }] },
      100,
    ],
    [
      'the text parts alone',
      {
        messages: [
          {
            content: [
              { type: 'text', text: 'x'.repeat(400) },
              { type: 'input_text', text: 'x'.repeat(400) },
              { type: 'image_url', text: 'x'.repeat(400), image_url: { url: 'x'.repeat(400) } },
              { type: 'text', text: 7 },
              { text: 'x'.repeat(400) },
              null,
            ],
          },
        ],
      },
      100,
    ],
    ['nothing it knows', { input: 'x'.repeat(400) }, 0],
  ])('the estimate is a quarter of the characters of %s', (_name, json, tokens) => {
    expect(estimateTokensByChars(json)).toBe(tokens)
  })
})
