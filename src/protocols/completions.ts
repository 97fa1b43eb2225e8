/** OpenAI's completions of a text or of token ids. */
import type { JsonObject } from '../core/json.ts'
import { completionComparison } from './comparison.ts'
import { choicesGrammar, textIn } from './choices-stream.ts'
import { ownCompletionForm } from './completion-form.ts'
import { completionBarrier, continuableBy } from './continuation-rules.ts'
import { openaiErrors } from './error-shape.ts'
import { openaiSplitting } from './prefill-edit.ts'
import { readTexts } from './prompt-texts.ts'
import { PLAIN_ENDPOINT, PLAIN_MIRROR_EDIT, type Protocol } from './protocol.ts'
import { usageOfPromptTokens } from './reported-usage.ts'
import { numberOf, scoresPrompt, sequencesOf } from './request-fields.ts'
import { openaiSessionFields, sessionHeaders } from './session.ts'

const LIMITS = ['max_tokens'] as const
/** Default `max_tokens` in vLLM as in OpenAI's API. `null` in vLLM: up to the end of the context. */
const DEFAULT_TOKENS = 16
const defaultTokens = ({ max_tokens: limit }: JsonObject): number | null => (limit === null ? null : DEFAULT_TOKENS)

export const completions: Protocol = {
  name: 'completions',
  operation: 'text_completion',
  endpoints: [
    {
      ...PLAIN_ENDPOINT,
      path: '/v1/completions',
      mirrorEdit: PLAIN_MIRROR_EDIT,
      streams: true,
      usageOnRequest: true,
      salted: true,
    },
  ],
  promptFields: { texts: ['prompt'], ids: ['prompt'] },
  prompt: (body) => readTexts(body['prompt'], body['add_special_tokens'] !== false),
  bounds: {
    fields: LIMITS,
    limit: (body) => numberOf(body, LIMITS) ?? defaultTokens(body),
    sequences: sequencesOf,
  },
  computesAll: scoresPrompt,
  answersJson: () => true,
  splitting: openaiSplitting,
  asCompletion: ownCompletionForm,
  continuable: (body, mode) => continuableBy({ barrier: completionBarrier, defaultTokens }, body, mode),
  comparison: completionComparison,
  stream: choicesGrammar({ textOf: ({ text }) => textIn(text), isOpening: () => false }),
  usage: usageOfPromptTokens,
  streamedAnswer: null,
  errors: openaiErrors,
  acceptsApiKeyHeader: false,
  sessions: [...sessionHeaders, ...openaiSessionFields],
}
