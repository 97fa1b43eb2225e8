/** vLLM's tokens in, tokens out (`/inference/v1/generate`): ids are used as they are, and no template applies. */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import { choicesGrammar } from './choices-stream.ts'
import { notContinuable } from './continuation-rules.ts'
import { openaiErrors } from './error-shape.ts'
import { prefillEdit, unsplittableReason } from './prefill-edit.ts'
import { readIds } from './prompt-texts.ts'
import { PLAIN_ENDPOINT, type FieldEdit, type Protocol } from './protocol.ts'
import { usageOfPromptTokens } from './reported-usage.ts'
import { numberOf, scoresPrompt, sequencesOf } from './request-fields.ts'
import { openaiSessionFields, sessionHeaders } from './session.ts'

const LIMITS = ['max_tokens'] as const
/** vLLM's default in `SamplingParams`. */
const DEFAULT_TOKENS = 16

/** Sampling fields, which are in an object of their own. */
const sampling = ({ sampling_params: params }: JsonObject): JsonObject => (isJsonObject(params) ? params : {})

function prefillLeg(body: JsonObject): FieldEdit {
  const params = prefillEdit(sampling(body), { limit: 'max_tokens' })
  const kept = Object.entries(sampling(body)).filter(([name]) => !params.remove.includes(name))
  const set = { sampling_params: JSON.stringify({ ...Object.fromEntries(kept), max_tokens: 1 }) }
  return { set: isStream(body) ? { ...set, stream: 'false' } : set, remove: ['stream_options'] }
}

const isStream = ({ stream }: JsonObject): boolean => stream !== undefined && stream !== false

/** Ids of the output stand for its text. */
const idsAsText = ({ token_ids: ids }: JsonObject): string | null =>
  Array.isArray(ids) && ids.length > 0 ? ids.join(' ') : null

export const generate: Protocol = {
  name: 'generate',
  operation: 'text_completion',
  endpoints: [{ ...PLAIN_ENDPOINT, path: '/inference/v1/generate', streams: true, usageOnRequest: true, salted: true }],
  promptFields: { texts: [], ids: ['token_ids'] },
  prompt: (body) => readIds(body['token_ids']),
  bounds: {
    fields: ['sampling_params.max_tokens'],
    limit: (body) =>
      numberOf(sampling(body), LIMITS) ?? (sampling(body)['max_tokens'] === null ? null : DEFAULT_TOKENS),
    sequences: (body) => sequencesOf(sampling(body)),
  },
  computesAll: (body) => scoresPrompt(sampling(body)),
  answersJson: () => true,
  splitting: { unsplittable: (body) => unsplittableReason(sampling(body)), prefillEdit: prefillLeg },
  asCompletion: null,
  continuable: notContinuable,
  stream: choicesGrammar({ textOf: idsAsText, isOpening: () => false }),
  usage: usageOfPromptTokens,
  streamedAnswer: null,
  errors: openaiErrors,
  acceptsApiKeyHeader: false,
  sessions: [...sessionHeaders, ...openaiSessionFields],
}
