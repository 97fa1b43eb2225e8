import { expect, it } from 'vitest'
import { addToChat, noProgress } from '../../src/dashboard/chat-stream.ts'

const chunk = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const delta = (value: object) => chunk({ choices: [{ delta: value }] })
const stream = [
  delta({ role: 'assistant', content: '' }),
  delta({ reasoning_content: 'Hm.' }),
  ': heartbeat\n\n',
  delta({ content: 'Hel' }),
  delta({ content: 'lo – ☀' }),
  chunk({ choices: [], usage: { completion_tokens: 7 } }),
  'data: [DONE]\n\n',
].join('')

it('the playground reads the same text however the stream is divided', () => {
  const whole = addToChat(noProgress, stream)
  expect(whole).toEqual({ text: 'Hello – ☀', reasoning: 'Hm.', outputTokens: 7, problem: null, rest: '' })
  for (const size of [1, 2, 3, 7, 50]) {
    const parts = Array.from({ length: Math.ceil(stream.length / size) }, (_, at) =>
      stream.slice(at * size, (at + 1) * size),
    )
    expect(parts.reduce(addToChat, noProgress)).toEqual(whole)
  }
})

it('the playground shows the error of a stream that broke, after the text before it', () => {
  const progress = addToChat(noProgress, delta({ content: 'Hel' }) + chunk({ error: { message: 'engine lost' } }))
  expect(progress).toMatchObject({ text: 'Hel', problem: 'engine lost' })
})

it('the playground keeps an incomplete event for the next part', () => {
  expect(addToChat(noProgress, 'data: {"choi').rest).toBe('data: {"choi')
})
