/** Texts of a chat stream, as vLLM sends them. */
import type { FakeAnswer } from './fake-answer.ts'

export const sseEvent = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

/** The finish reason and the end. */
export const DONE = `${sseEvent({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}data: [DONE]\n\n`

/** Event of one token. */
export const token = (text: string): string =>
  sseEvent({ object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: text } }] })

/** Event that ends an answer. Streams without it are unfinished. */
export const FINISH = sseEvent({
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: {}, finish_reason: 'stop' }],
})

/** A streamed response of these pieces. */
export const sseAnswer = (
  pieces: NonNullable<FakeAnswer['pieces']>,
  rest: Omit<FakeAnswer, 'pieces'> = {},
): FakeAnswer => ({
  ...rest,
  headers: { 'content-type': 'text/event-stream; charset=utf-8', ...rest.headers },
  pieces,
})

/** A whole chat response. */
export const completion = (text = 'hello', usage = { prompt_tokens: 4, completion_tokens: 1, total_tokens: 5 }) => ({
  id: 'x',
  object: 'chat.completion',
  choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
  usage,
})
