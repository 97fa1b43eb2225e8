import type { ChatMessage, ChatPrompt } from './chat.ts'
import type { Text } from './utf8-text.ts'

/**
 * A chat as text pieces, for models without a known template. ChatML's marks replace those of the template, so that
 * the length is about right. Tools stand behind a leading system message, as in the templates of Qwen, DeepSeek, Llama,
 * Mistral and gpt-oss. Those of GLM and Kimi print tools first; then fewer cached tokens are predicted than there are.
 * The opposite error would look like evictions.
 */
export function chatPieces(chat: ChatPrompt): Text[] {
  const pieces: Text[] = []
  const [first, ...others] = chat.messages
  const leads = first?.role === 'system'
  if (leads) pushMessage(pieces, first)
  if (chat.tools !== null) pieces.push('<|im_start|>tools\n', jsonText(chat.tools), '<|im_end|>\n')
  for (const message of leads ? others : chat.messages) pushMessage(pieces, message)
  if (chat.variables['add_generation_prompt'] === true) pieces.push('<|im_start|>assistant\n')
  return pieces
}

function pushMessage(pieces: Text[], { role, parts, extra }: ChatMessage): void {
  pieces.push(`<|im_start|>${role}\n`)
  for (const part of parts) pieces.push(part)
  // Templates print tool calls, but not ids, names and mostly not earlier reasoning.
  if ('tool_calls' in extra) pieces.push(jsonText(extra['tool_calls']))
  pieces.push('<|im_end|>\n')
}

/** A body that is nested deeper than the stack must not fail the request. */
function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch {
    return ''
  }
}
