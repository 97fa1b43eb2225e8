import type { JsonObject } from '../json.ts'
import { type ChatMessage, readContent } from './chat.ts'

/** Collects messages and counts parts that are not text. */
export class Transcript {
  readonly messages: ChatMessage[] = []
  items = 0

  add(role: string, content: unknown, extra: JsonObject = {}): void {
    const { parts, items } = readContent(content)
    this.items += items
    this.messages.push({ role, parts, extra })
  }
}

export const toolCall = (id: unknown, name: unknown, args: unknown): unknown => ({
  id,
  type: 'function',
  function: { name, arguments: args },
})
