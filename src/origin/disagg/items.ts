/** Images, sounds and videos of a request, one by one, as an encode engine takes them. */
import { chainText } from '../../core/tokens/block-hash.ts'

type Json = Readonly<Record<string, unknown>>

export interface EncodeItem {
  /** A content part of a chat message. */
  readonly part: Json
  /** Of its content: equal items have equal keys. */
  readonly key: string
}

/** Parts of chats that an encoder reads, by the field that holds their content. */
const CHAT_PARTS: ReadonlySet<string> = new Set(['image_url', 'audio_url', 'input_audio', 'video_url'])

/** In the order of the request; an item that stands there twice is one. Never throws: what is no item is left to the engine. */
export function itemsOf(json: Json): readonly EncodeItem[] {
  const found = new Map<string, EncodeItem>()
  for (const list of [json['messages'], json['input']]) {
    if (!Array.isArray(list)) continue
    for (const message of list as (Json | null)[]) {
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

/** null: text, or nothing an encoder reads. */
function chatPart(given: unknown): Json | null {
  if (typeof given !== 'object' || given === null) return null
  const part = given as Json
  const { type } = part
  if (typeof type !== 'string') return null
  if (CHAT_PARTS.has(type)) return part[type] === undefined ? null : part
  // The Responses API gives the address itself.
  if (type === 'input_image' && typeof part['image_url'] === 'string') return { type: 'image_url', image_url: { url: part['image_url'] } }
  return null
}

/** null: nested too deep to be written down, so no encoder could be asked for it either. */
function keyOf(part: Json): string | null {
  const state = { lo: 0x2c1b3c6d, hi: 0x297a2d39 }
  try {
    chainText(state, JSON.stringify(part))
  } catch {
    return null
  }
  return (state.hi >>> 0).toString(16).padStart(8, '0') + (state.lo >>> 0).toString(16).padStart(8, '0')
}

/** Items an encoder is believed to hold, and which: bounded, least recently used goes first. */
export class EncodedItems {
  readonly #limit: number
  readonly #engineOf = new Map<string, string>()

  constructor(limit: number) {
    this.#limit = limit
  }

  has(key: string): boolean {
    const engine = this.#engineOf.get(key)
    if (engine === undefined) return false
    this.#engineOf.delete(key)
    this.#engineOf.set(key, engine)
    return true
  }

  add(key: string, engine: string): void {
    if (this.#limit === 0) return
    this.#engineOf.delete(key)
    this.#engineOf.set(key, engine)
    if (this.#engineOf.size > this.#limit) this.#engineOf.delete(this.#engineOf.keys().next().value!)
  }

  /** The engine failed: what it held is not counted on. */
  forget(engine: string): void {
    for (const [key, holder] of this.#engineOf) if (holder === engine) this.#engineOf.delete(key)
  }
}
