import { isJsonObject, type JsonObject } from '../json.ts'
import { chainText } from './block-hash.ts'
import { isText } from './utf8-text.ts'

/** Marker of a non-text part: equal for equal bytes or URL. */
export function itemMarker(part: JsonObject): string {
  const state = { lo: 1, hi: 2 }
  const type = typeof part['type'] === 'string' ? part['type'] : 'item'
  hashValue(state, part, 0)
  return `[${type} ${hex(state.hi)}${hex(state.lo)}]`
}

const hex = (lane: number): string => lane.toString(16).padStart(8, '0')

/** Deepest nesting that is read: a body of brackets must not exhaust the stack. */
const MAX_DEPTH = 8

/** Longer texts, such as images in base64, are sampled: hashing all of 31 MB took 60 ms. */
const SAMPLED_CHARS = 256 * 1024

const SAMPLES = 32

const SAMPLE_CHARS = SAMPLED_CHARS / SAMPLES

/** Hashes a text. Two texts of equal length and equal samples collide; a collision costs only a wrong prediction. */
function hashText(state: { lo: number; hi: number }, text: string): void {
  if (text.length <= SAMPLED_CHARS) return chainText(state, text)
  chainText(state, String(text.length))
  const last = text.length - SAMPLE_CHARS
  for (let i = 0; i < SAMPLES; i++) {
    const from = Math.floor((last * i) / (SAMPLES - 1))
    chainText(state, text, from, from + SAMPLE_CHARS)
  }
}

function hashValue(state: { lo: number; hi: number }, value: unknown, depth: number): void {
  if (isText(value)) hashText(state, String(value))
  else if (isJsonObject(value) && depth < MAX_DEPTH) {
    for (const key of Object.keys(value).sort()) {
      chainText(state, key)
      hashValue(state, value[key], depth + 1)
    }
  } else if (Array.isArray(value) && depth < MAX_DEPTH) for (const entry of value) hashValue(state, entry, depth + 1)
  else chainText(state, String(typeof value === 'object' ? null : value))
}
