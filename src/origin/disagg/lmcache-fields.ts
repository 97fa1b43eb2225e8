/** Request fields that LMCache's two completion legs can carry. */
import type { JsonObject } from '../../core/json.ts'
import type { Protocol } from '../../protocols/protocol.ts'

/**
 * Fields with the same meaning on `/v1/completions`, and without effect on where a response ends: copied to both legs.
 */
const COPIED_FIELDS: ReadonlySet<string> = new Set([
  'model',
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'repetition_penalty',
  'length_penalty',
  'seed',
  'user',
  'stop_token_ids',
  'ignore_eos',
  'skip_special_tokens',
  'spaces_between_special_tokens',
  'include_stop_str_in_output',
  'allowed_token_ids',
  'logit_bias',
  'priority',
  'cache_salt',
])

/** Fields that the connector reads itself, or that have no effect on the legs. */
const HANDLED_FIELDS: ReadonlySet<string> = new Set([
  'prompt',
  'messages',
  'stream',
  'stream_options',
  'max_tokens',
  'max_completion_tokens',
  'min_tokens',
  'add_special_tokens',
  'add_generation_prompt',
  'continue_final_message',
  'chat_template',
  'chat_template_kwargs',
  'firstlight',
  'store',
  'metadata',
  'service_tier',
  'parallel_tool_calls',
  'kv_transfer_params',
  'ec_transfer_params',
])

/** Fields that are harmless with these values. With other values the request is not split. */
const NEUTRAL_VALUES: Readonly<Record<string, (value: unknown) => boolean>> = {
  n: (value) => value === 1,
  best_of: (value) => value === 1,
  echo: (value) => value === false,
  use_beam_search: (value) => value === false,
  logprobs: (value) => value === false,
  top_logprobs: (value) => value === 0,
  // Counts output only, and the decode leg would miss the first token.
  presence_penalty: (value) => value === 0,
  frequency_penalty: (value) => value === 0,
  // May start in the first token and end in the next.
  stop: (value) => value === '' || (Array.isArray(value) && value.length === 0),
  tools: (value) => Array.isArray(value) && value.length === 0,
  tool_choice: (value) => value === 'none',
  response_format: (value) => typeof value === 'object' && value !== null && (value as JsonObject)['type'] === 'text',
}

/**
 * Returns why a request cannot be split. null: it can. Unknown fields count as a reason.
 * @param splitsChats chats can be split
 */
export function unsplittableByLmcache(protocol: Protocol, json: JsonObject, splitsChats: boolean): string | null {
  const { asCompletion } = protocol
  if (asCompletion === null) return 'lmcache splits chats and completions only'
  if (asCompletion.converts && !splitsChats) return 'split.lmcache.chat is off'
  for (const [name, value] of Object.entries(json)) {
    if (value === null || COPIED_FIELDS.has(name) || HANDLED_FIELDS.has(name)) continue
    if (Object.hasOwn(NEUTRAL_VALUES, name) && NEUTRAL_VALUES[name]!(value)) continue
    return `${name.slice(0, 40)} cannot be split over two legs`
  }
  if (asksForReasoning(json['chat_template_kwargs'])) return 'reasoning'
  const options = json['stream_options'] as JsonObject | null | undefined
  if (options?.['continuous_usage_stats'] === true) return 'continuous_usage_stats'
  const withoutIds = asCompletion.withoutIds(json)
  if (withoutIds !== null) return withoutIds
  const limit = protocol.bounds.limit(json)
  return limit !== null && limit < 2 ? 'the limit is one token' : null
}

/** Fields of the client's request that both legs get. @testing */
export function copiedFields(json: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(json).filter(([name, value]) => value !== null && COPIED_FIELDS.has(name)))
}

/** A reasoning parser separates reasoning from content, and only chats have one. */
function asksForReasoning(kwargs: unknown): boolean {
  return typeof kwargs === 'object' && kwargs !== null && Object.keys(kwargs).some((name) => /think|reason/i.test(name))
}
