import type { ChatPrompt } from './chat.ts'
import type { Text } from './utf8-text.ts'

/**
 * A chat as text pieces, for models without a known template. ChatML's marks replace those of the template, so that
 * the length is about right; any fixed form keeps equal prefixes equal.
 */
export function chatPieces(chat: ChatPrompt): Text[] {
  const pieces: Text[] = []
  if (chat.tools !== null) pieces.push('<|im_start|>tools\n', jsonText(chat.tools), '<|im_end|>\n')
  for (const message of chat.messages) {
    pieces.push(`<|im_start|>${message.role}\n`)
    for (const part of message.parts) pieces.push(part)
    for (const key in message.extra) {
      const value = message.extra[key]
      // Templates print tool calls, but not ids, names and mostly not earlier reasoning.
      if (key === 'tool_calls') pieces.push(jsonText(value))
    }
    pieces.push('<|im_end|>\n')
  }
  if (chat.variables['add_generation_prompt'] === true) pieces.push('<|im_start|>assistant\n')
  return pieces
}

/** A body that is nested deeper than the stack must not fail the request. */
function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch {
    return ''
  }
}
