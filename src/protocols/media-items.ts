/**
 * Images, audio and videos of a request as separate items, for the encode stage. Which parts are media is each
 * protocol’s matter.
 */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { chainText } from '../core/tokens/block-hash.ts'

export interface MediaItem {
  /** A content part of a chat message. */
  readonly part: JsonObject
  /** Hash of the content: equal items have equal keys. */
  readonly key: string
}

/**
 * Returns the items in the order of the request, without duplicates.
 * @param parts content parts of a chat, as `media` of the protocol gives them
 */
export function mediaItemsOf(parts: readonly JsonObject[]): readonly MediaItem[] {
  const found = new Map<string, MediaItem>()
  for (const part of parts) {
    const key = keyOf(part)
    if (key !== null && !found.has(key)) found.set(key, { part, key })
  }
  return [...found.values()]
}

/** Content parts that an encoder reads, by the field with their content. */
const CHAT_PARTS: ReadonlySet<unknown> = new Set(['image_url', 'audio_url', 'input_audio', 'video_url'])

/** A part of a chat that an encoder reads. */
export const isMedia = (part: JsonObject): boolean => {
  const { type } = part
  return CHAT_PARTS.has(type) && part[type as string] !== undefined
}

/** Lists the media of a chat's messages. */
export const chatMedia = (list: unknown): readonly JsonObject[] => contentParts(list).filter(isMedia)

/** Lists the objects among the content parts of each message of a list. Never throws. */
export function contentParts(list: unknown): readonly JsonObject[] {
  if (!Array.isArray(list)) return []
  return list.flatMap((message: unknown) => objectsIn(isJsonObject(message) ? message['content'] : null))
}

export const objectsIn = (list: unknown): readonly JsonObject[] =>
  Array.isArray(list) ? list.filter(isJsonObject) : []

/** Makes the part of a chat with an image. */
export const imagePart = (url: string): JsonObject => ({ type: 'image_url', image_url: { url } })

/** null: nested too deeply for JSON text, so it cannot be sent to an encoder either. */
function keyOf(part: JsonObject): string | null {
  const state = { lo: 0x2c1b3c6d, hi: 0x297a2d39 }
  try {
    chainText(state, JSON.stringify(part))
  } catch {
    return null
  }
  return (state.hi >>> 0).toString(16).padStart(8, '0') + (state.lo >>> 0).toString(16).padStart(8, '0')
}
