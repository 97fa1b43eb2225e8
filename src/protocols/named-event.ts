/** What streams of named events (Messages, Responses) have in common. */
import type { JsonObject } from '../core/json.ts'
import { textIn } from './choices-stream.ts'
import { errorNamed, errorOfText } from './engine-error.ts'
import { DONE, type StreamEvent } from './stream/event.ts'
import { objectIn } from './stream/reader.ts'

/**
 * Reads an event of the type that its name or its document gives.
 * @param name null: the event has no name
 */
export function readNamedEvent(
  name: string | null,
  data: string,
  readType: (type: string, json: JsonObject) => StreamEvent,
): StreamEvent {
  // Some servers end these streams as chats end, too, or add it after an error. It is no end by itself.
  if (data.trim() === DONE) return { kind: 'comment' }
  const json = objectIn(data)
  if (name === 'error') return { kind: 'error', error: errorNamed(json, data) }
  if (json === null) return { kind: 'error', error: errorOfText(data) }
  return readType(name ?? textIn(json['type']), json)
}
