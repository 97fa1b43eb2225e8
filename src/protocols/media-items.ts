/** Images, audio and videos of a request as separate items, for the encode stage. */
import type { JsonObject } from '../core/json.ts'
import { chainText } from '../core/tokens/block-hash.ts'

export interface MediaItem {
  /** A content part of a chat message. */
  readonly part: JsonObject
  /** Hash of the content: equal items have equal keys. */
  readonly key: string
}

/** Content parts that an encoder reads, by the field with their content. */
const CHAT_PARTS: ReadonlySet<string> = new Set(['image_url', 'audio_url', 'input_audio', 'video_url'])

/**
 * Returns the items in the order of the request, without duplicates. Never throws: the engine reports malformed parts.
 * @testing
 */
export function mediaItemsOf(json: JsonObject): readonly MediaItem[] {
  const found = new Map<string, MediaItem>()
  for (const list of [json['messages'], json['input']]) {
    if (!Array.isArray(list)) continue
    for (const message of list as (JsonObject | null)[]) {
      const content = message?.['content']
      if (!Array.isArray(content)) continue
      for (const given of content as unknown[]) {
        const part = chatPart(given)
        if (part === null) continue
        const key = keyOf(part)
        if (key !== null && !found.has(key)) found.set(key, { part, key })
      }
    }
  }
  return [...found.values()]
}

/** null: text, or a part that no encoder reads. */
function chatPart(given: unknown): JsonObject | null {
  if (typeof given !== 'object' || given === null) return null
  const part = given as JsonObject
  const { type } = part
  if (typeof type !== 'string') return null
  if (CHAT_PARTS.has(type)) return part[type] === undefined ? null : part
  // The Responses API has the URL itself in this field.
  if (type === 'input_image' && typeof part['image_url'] === 'string')
    return { type: 'image_url', image_url: { url: part['image_url'] } }
  return null
}

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
