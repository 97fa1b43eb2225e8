/** Prompts in so many pieces that reading each would hold up everybody else for seconds. */
import type { PromptRequest } from './measure.ts'

/** Messages, parts, texts and their fields: more than any prompt has. */
const MOST_PIECES = 32_768

const isIds = (value: unknown): boolean => Array.isArray(value) && value.every((one) => typeof one === 'number')
/** Where a prompt may be ids, each list of them is one piece. */
const withoutIds = (value: unknown): unknown => (isIds(value) ? null : Array.isArray(value) ? value.map((one: unknown) => (isIds(one) ? null : one)) : value)

/** Has the body more pieces than a prompt is read by? */
export function inCrumbs({ body, bodyBytes }: Pick<PromptRequest, 'body' | 'bodyBytes'>): boolean {
  // Each takes two bytes at least.
  if (bodyBytes < 2 * MOST_PIECES) return false
  const fields = body as Readonly<Record<string, unknown>>
  const names = Object.keys(fields)
  // To take out so many takes longer than to parse them did; so below.
  if (names.length > MOST_PIECES) return true
  const open: object[] = [names.map((name) => (name === 'prompt' || name === 'input' ? withoutIds(fields[name]) : fields[name]))]
  let left = MOST_PIECES
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    left -= Array.isArray(value) ? value.length : Object.keys(value).length
    if (left < 0) return true
    for (const one of Array.isArray(value) ? (value as unknown[]) : Object.values(value)) if (typeof one === 'object' && one !== null && !ArrayBuffer.isView(one)) open.push(one)
  }
  return false
}
