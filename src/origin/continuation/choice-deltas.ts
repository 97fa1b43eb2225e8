/** Text fields of the choices of chat and completion chunks. */
import type { Channel, SentDeltas } from '../../core/continuation/sent-deltas.ts'
import { isJsonObject, type JsonObject } from '../../core/json.ts'
import { textIn } from '../../protocols/choices-stream.ts'

/** Fields of a delta and their channels. */
export const FIELDS: readonly (readonly [string, Channel])[] = [
  ['content', 'content'],
  ['reasoning', 'reasoning'],
  ['reasoning_content', 'reasoning'],
]

/** Adds the texts of a choice to what the client has. */
export function addDeltas(sent: SentDeltas, choice: JsonObject): void {
  const { delta } = choice
  if (!isJsonObject(delta)) return sent.add('content', textIn(choice['text']))
  for (const [name, channel] of FIELDS) if (typeof delta[name] === 'string') sent.add(channel, delta[name])
  const { tool_calls: calls } = delta
  if (!Array.isArray(calls)) return
  for (const call of calls as readonly unknown[]) {
    if (!isJsonObject(call)) continue
    const index = typeof call['index'] === 'number' ? call['index'] : 0
    const given = isJsonObject(call['function']) ? call['function'] : {}
    sent.add(`name:${index}`, textIn(given['name']))
    sent.add(`arguments:${index}`, textIn(given['arguments']))
  }
}
