/** Scores of pairs of texts. */
import type { JsonObject } from '../core/json.ts'
import type { Prompt } from '../core/tokens/prompt.ts'
import { NOTHING_DECODED, ONE_PASS } from './one-pass.ts'
import { readPairs, UNREADABLE } from './prompt-texts.ts'
import { PLAIN_ENDPOINT, type Protocol } from './protocol.ts'

const PAIRS = [
  ['text_1', 'text_2'],
  ['queries', 'documents'],
  ['data_1', 'data_2'],
] as const

function readScored(body: JsonObject): Prompt {
  for (const [left, right] of PAIRS) if (body[left] !== undefined) return readPairs(body[left], body[right])
  return UNREADABLE
}

export const score: Protocol = {
  ...ONE_PASS,
  name: 'score',
  operation: 'score',
  endpoints: ['/score', '/v1/score'].map((path) => ({
    ...PLAIN_ENDPOINT,
    path,
    salted: true,
    unsplittable: NOTHING_DECODED,
  })),
  prompt: readScored,
}
