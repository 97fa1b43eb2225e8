/** Traits of protocols that read a prompt and generate no text. */
import { notContinuable } from './continuation-rules.ts'
import { openaiErrors } from './error-shape.ts'
import { NO_PROMPT_FIELDS, type Protocol } from './protocol.ts'
import { usageWithoutOutput } from './reported-usage.ts'
import { openaiSessionFields, sessionHeaders } from './session.ts'

export const ONE_PASS = {
  promptFields: NO_PROMPT_FIELDS,
  bounds: { fields: [], limit: () => 0, sequences: () => 1 },
  computesAll: () => false,
  answersJson: () => true,
  splitting: null,
  asCompletion: null,
  continuable: notContinuable,
  stream: null,
  usage: usageWithoutOutput,
  streamedAnswer: null,
  errors: openaiErrors,
  acceptsApiKeyHeader: false,
  sessions: [...sessionHeaders, ...openaiSessionFields],
} satisfies Partial<Protocol>

export const NOTHING_DECODED = 'nothing is decoded'
export const NO_TEXT_DECODED = 'no text is decoded'
