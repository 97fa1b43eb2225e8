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
  const { prompt, input } = body as Readonly<Record<string, unknown>>
  const open: object[] = [{ ...(body as object), prompt: withoutIds(prompt), input: withoutIds(input) }]
  let left = MOST_PIECES
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    const inner: unknown[] = Array.isArray(value) ? value : Object.values(value)
    left -= inner.length
    if (left < 0) return true
    for (const one of inner) if (typeof one === 'object' && one !== null && !ArrayBuffer.isView(one)) open.push(one)
  }
  return false
}
