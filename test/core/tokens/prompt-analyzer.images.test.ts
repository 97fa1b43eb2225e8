import { expect, it } from 'vitest'
import type { ChatPrompt } from '../../../src/core/tokens/chat.ts'
import type { PromptRequest } from '../../../src/core/tokens/prompt-request.ts'
import { analyzerOf, requestOf } from './support.ts'

const SYSTEM = 'You describe images for a newspaper.'
const QUESTION = 'What does this one show?'
const IMAGE = 'data:image/png;base64,AAAA'

/** One token per character. */
const analyzer = analyzerOf({
  tokenizer: { encode: (text, _, out) => out.append(Array.from(text, (one) => one.codePointAt(0)!)) },
  template: ({ messages }: ChatPrompt) =>
    messages.map(({ role, parts }) => `<${role}>${parts.map(String).join('')}`).join(''),
})

const textOf = (protocol: string, body: object, more: Partial<PromptRequest> = { withIds: true }): string | null => {
  const { ids } = analyzer.measure(requestOf(protocol, body, more))
  return ids === null ? null : String.fromCodePoint(...ids)
}

const image = { type: 'image_url', image_url: { url: IMAGE } }

it.each<[string, object]>([
  [
    'chat',
    {
      messages: [
        { role: 'system', content: SYSTEM },
        {
          role: 'user',
          content: [{ type: 'text', text: QUESTION }, image, { type: 'text', text: 'And this?' }, image],
        },
      ],
    },
  ],
  [
    'responses',
    {
      instructions: SYSTEM,
      input: [
        {
          role: 'user',
          content: [
            { type: 'input_text', text: QUESTION },
            { type: 'input_image', image_url: IMAGE },
          ],
        },
      ],
    },
  ],
  [
    'messages',
    {
      system: SYSTEM,
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: QUESTION },
            { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
          ],
        },
      ],
    },
  ],
])('a prompt with images has the token ids of its text before the first one: %s', (protocol, body) => {
  expect(textOf(protocol, body)).toBe(`<system>${SYSTEM}<user>${QUESTION}`)
})

it('a prompt with images whose first part is one has the ids of what stands before it', () => {
  const messages = [{ role: 'user', content: [image, { type: 'text', text: QUESTION }] }]
  expect(textOf('chat', { messages })).toBe('<user>')
})

it('a prompt with images has no ids if they are not looked up, and one without has those of all its text', () => {
  const content = [{ type: 'text', text: QUESTION }]
  expect(textOf('chat', { messages: [{ role: 'user', content: [...content, image] }] }, {})).toBeNull()
  expect(textOf('chat', { messages: [{ role: 'user', content }] })).toBe(`<user>${QUESTION}`)
})

it('prompts with other images differ in their blocks behind the text only', () => {
  const blocksOf = (url: string): readonly number[] => {
    const content = [
      { type: 'text', text: QUESTION.repeat(4) },
      { type: 'image_url', image_url: { url } },
      { type: 'text', text: QUESTION.repeat(4) },
    ]
    return [...analyzer.measure(requestOf('chat', { messages: [{ role: 'user', content }] })).blocks]
  }
  const [one, other] = [blocksOf('http://one'), blocksOf('http://other')]
  const common = 2 * Math.floor(`<user>${QUESTION.repeat(4)}`.length / 16)
  expect(one.slice(0, common)).toEqual(other.slice(0, common))
  expect(one.at(-2)).not.toBe(other.at(-2))
})
