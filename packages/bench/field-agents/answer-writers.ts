import type { AnswerWriter } from './answer.ts'
import { chatAnswer } from './chat-answer.ts'
import { messagesAnswer } from './messages-answer.ts'
import { responsesAnswer } from './responses-answer.ts'

const WRITERS: Readonly<Record<string, AnswerWriter>> = {
  '/v1/chat/completions': chatAnswer,
  '/v1/messages': messagesAnswer,
  '/v1/responses': responsesAnswer,
}

/** The writer of answers at this path. */
export function writerOf(path: string): AnswerWriter {
  const writer = WRITERS[path]
  if (writer === undefined) throw new Error(`no answers are written for ${path}`)
  return writer
}
