import type { Answer, BodyStream } from '../answer.ts'

export const data = (value: unknown): string => `data: ${JSON.stringify(value)}\n\n`

export const event = (type: string, value: unknown): string => `event: ${type}\ndata: ${JSON.stringify(value)}\n\n`

export const DONE = 'data: [DONE]\n\n'

export const eventStream = (body: BodyStream): Answer => ({
  status: 200,
  headers: { 'content-type': 'text/event-stream; charset=utf-8' },
  body,
})
