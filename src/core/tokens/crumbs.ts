/** Prompts in so many pieces that reading each would hold up everybody else for seconds. */
import type { PromptRequest } from './measure.ts'

/** Messages, parts, texts and their fields: more than any prompt has. */
const MOST_PIECES = 32_768

/** Has the body more pieces than a prompt is read by? Lists of token ids have one. */
export function inCrumbs({ body, bodyBytes }: Pick<PromptRequest, 'body' | 'bodyBytes'>): boolean {
  // Each takes two bytes at least.
  if (bodyBytes < 2 * MOST_PIECES) return false
  const open: object[] = [body as object]
  let left = MOST_PIECES
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    if (Array.isArray(value) && value.every((one) => typeof one === 'number')) continue
    const inner: unknown[] = Array.isArray(value) ? value : Object.values(value)
    left -= inner.length
    if (left < 0) return true
    for (const one of inner) if (typeof one === 'object' && one !== null && !ArrayBuffer.isView(one)) open.push(one)
  }
  return false
}
