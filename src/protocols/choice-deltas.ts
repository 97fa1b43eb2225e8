/** Text fields of the choices of chat and completion chunks: what a client has of them, and what is new. */
import type { Channel, RepeatedDeltas, SentDeltas } from '../core/continuation/sent-deltas.ts'
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { textIn } from './choices-stream.ts'

/** Fields of a delta and their channels. */
const FIELDS: readonly (readonly [string, Channel])[] = [
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

export interface ChoiceRest {
  /** `delta` or `text` with what the client does not have. */
  readonly fields: JsonObject
  readonly content: string
  readonly isEmpty: boolean
}

/** Removes from a repeated choice what the client has. null: it differs. */
export function restOfChoice(choice: JsonObject, repeated: RepeatedDeltas, withRole: boolean): ChoiceRest | null {
  const { delta } = choice
  if (!isJsonObject(delta)) {
    const text = repeated.rest('content', textIn(choice['text']))
    return text === null ? null : { fields: { text }, content: text, isEmpty: text === '' }
  }
  const out: Record<string, unknown> = { ...delta }
  if (!withRole) delete out['role']
  for (const [name, channel] of FIELDS) {
    if (typeof out[name] !== 'string') continue
    const text = repeated.rest(channel, out[name])
    if (text === null) return null
    if (text === '') delete out[name]
    else out[name] = text
  }
  const { tool_calls: calls } = out
  if (Array.isArray(calls)) {
    const rests = calls.map((toolCall: unknown) => toolCallRest(toolCall, repeated))
    if (rests.includes(null)) return null
    out['tool_calls'] = rests.filter((one) => one !== undefined)
    if ((out['tool_calls'] as unknown[]).length === 0) delete out['tool_calls']
  }
  return { fields: { delta: out }, content: textIn(out['content']), isEmpty: Object.keys(out).length === 0 }
}

/** One tool call: its id differs at each engine, so the client keeps the first. undefined: nothing is new. */
function toolCallRest(toolCall: unknown, repeated: RepeatedDeltas): JsonObject | null | undefined {
  if (!isJsonObject(toolCall)) return undefined
  const { id, type, function: given, ...others } = toolCall
  const { name, arguments: text, ...more } = isJsonObject(given) ? given : ({} as JsonObject)
  const index = typeof toolCall['index'] === 'number' ? toolCall['index'] : 0
  const isOpen = repeated.wasSent(`name:${index}`)
  const restName = repeated.rest(`name:${index}`, textIn(name))
  const restText = repeated.rest(`arguments:${index}`, textIn(text))
  if (restName === null || restText === null) return null
  if (isOpen && restName === '' && restText === '') return undefined
  const opened = isOpen ? {} : { ...(id === undefined ? {} : { id }), ...(type === undefined ? {} : { type }) }
  const isNamed = typeof name === 'string' && (!isOpen || restName !== '')
  return {
    ...others,
    ...opened,
    function: {
      ...more,
      ...(isNamed ? { name: restName } : {}),
      ...(typeof text === 'string' ? { arguments: restText } : {}),
    },
  }
}
