/** Detects prompts with so many pieces that reading each would delay other requests for seconds. */
import type { JsonObject } from '../json.ts'

/** Limit of messages, parts, texts and their fields. */
const MAX_PIECES = 32_768

const isIdList = (value: unknown): boolean => Array.isArray(value) && value.every((one) => typeof one === 'number')

/** Each list of ids is one piece. */
const withoutIds = (value: unknown): unknown =>
  isIdList(value) ? null : Array.isArray(value) ? value.map((one: unknown) => (isIdList(one) ? null : one)) : value

/**
 * Whether the body has more pieces than the limit.
 * @param idFields fields that may be lists of token ids
 */
export function isTooFragmented(body: JsonObject, bodyBytes: number, idFields: readonly string[]): boolean {
  // Each takes at least two bytes.
  if (bodyBytes < 2 * MAX_PIECES) return false
  const names = Object.keys(body)
  // Listing so many names takes longer than parsing them.
  if (names.length > MAX_PIECES) return true
  const open: object[] = [names.map((name) => (idFields.includes(name) ? withoutIds(body[name]) : body[name]))]
  let left = MAX_PIECES
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    left -= Array.isArray(value) ? value.length : Object.keys(value).length
    if (left < 0) return true
    for (const one of Array.isArray(value) ? (value as unknown[]) : Object.values(value))
      if (typeof one === 'object' && one !== null && !ArrayBuffer.isView(one)) open.push(one)
  }
  return false
}
