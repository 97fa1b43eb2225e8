import type { ChatPrompt } from './chat.ts'
import type { Text } from './text.ts'

/**
 * A chat as text, piece by piece, when the model's template is unknown. ChatML's marks stand in for the template's, so
 * that the length is about right; for equality of prefixes any fixed form does.
 */
export function chatPieces(chat: ChatPrompt): Text[] {
  const pieces: Text[] = []
  if (chat.tools !== null) pieces.push('<|im_start|>tools\n', json(chat.tools), '<|im_end|>\n')
  for (const message of chat.messages) {
    pieces.push(`<|im_start|>${message.role}\n`)
    for (const part of message.parts) pieces.push(part)
    for (const key in message.extra) {
      const value = message.extra[key]
      // Templates leave out ids of calls, names and, mostly, past reasoning; calls they print.
      if (key === 'tool_calls') pieces.push(json(value))
    }
    pieces.push('<|im_end|>\n')
  }
  if (chat.variables['add_generation_prompt'] === true) pieces.push('<|im_start|>assistant\n')
  return pieces
}

/** A body nested deeper than the stack must not fail the request. */
function json(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch {
    return ''
  }
}
