/** Which streams of chats and completions another engine can continue, and what of a request a continuation repeats. */
import { isRepeatable, type Continuable, type MidStream, type NotContinued } from '../core/continuation/continuable.ts'
import type { JsonObject } from '../core/json.ts'
import { hasMedia } from './chat-messages.ts'
import { isGiven } from './request-fields.ts'

/** Sampling parameters that a continuation repeats unchanged. Others are adapted or excluded. */
const REPEATED = [
  'temperature',
  'top_p',
  'top_k',
  'min_p',
  'repetition_penalty',
  'frequency_penalty',
  'presence_penalty',
  'stop',
  'include_stop_str_in_output',
  'stop_token_ids',
  'ignore_eos',
  'logit_bias',
  'allowed_token_ids',
  'bad_words',
  'skip_special_tokens',
  'spaces_between_special_tokens',
  'max_tokens',
  'max_completion_tokens',
  'min_tokens',
  'seed',
  'user',
  'cache_salt',
  'priority',
] as const

/** Fields that make vLLM compile a grammar. */
const GRAMMARS = ['structured_outputs', 'guided_json', 'guided_regex', 'guided_choice', 'guided_grammar'] as const

/** For protocols whose answers have no token ids. */
export const notContinuable = (): NotContinued => 'endpoint'

interface ContinuationRules {
  /** The reason of this protocol against a continuation by ids. null: none. */
  barrier(body: JsonObject): NotContinued | null
  /** Output tokens of a request without a limit. null: up to the end of the context. */
  defaultTokens(body: JsonObject): number | null
}

export function continuableBy(rules: ContinuationRules, body: JsonObject, mode: MidStream): Continuable | NotContinued {
  const reason = excluded(body) ?? rules.barrier(body)
  const repeats = mode === 'replay' && isDeterministic(body) && body['include_reasoning'] !== false
  if (reason !== null && !(repeats && isRepeatable(reason))) return reason
  const { stream_options: options } = body
  return {
    defaultTokens: rules.defaultTokens(body),
    sampling: Object.fromEntries(REPEATED.flatMap((name) => (isGiven(body[name]) ? [[name, body[name]]] : []))),
    stops: stopsOf(body['stop']),
    showsIds: body['return_token_ids'] === true,
    showsUsage: (options as JsonObject | null | undefined)?.['include_usage'] === true,
    repeats,
    barrier: reason,
  }
}

/** Greedy, or sampled with a seed. */
const isDeterministic = ({ temperature, seed }: JsonObject): boolean => temperature === 0 || Number.isSafeInteger(seed)

/** Any value but false: what an engine rejects is not continued either. */
const isSet = (value: unknown): boolean => isGiven(value) && value !== false

function excluded(body: JsonObject): NotContinued | null {
  if ((isGiven(body['n']) && body['n'] !== 1) || (isGiven(body['best_of']) && body['best_of'] !== 1))
    return 'several_choices'
  if (isSet(body['use_beam_search'])) return 'several_choices'
  if (GRAMMARS.some((name) => isSet(body[name])) || hasFormat(body['response_format'])) return 'structured_output'
  if (isSet(body['echo'])) return 'echo'
  if (isSet(body['logprobs']) || isSet(body['top_logprobs']) || isSet(body['prompt_logprobs'])) return 'logprobs'
  if (isSet(body['prompt_embeds'])) return 'prompt_embeds'
  return body['include_reasoning'] === false ? 'reasoning' : null
}

const hasFormat = (format: unknown): boolean => isGiven(format) && (format as { type?: unknown }).type !== 'text'

/** The reason of a chat. */
export function chatBarrier(body: JsonObject): NotContinued | null {
  if (mayCall(body)) return 'tools'
  return hasMedia(body['messages']) ? 'multimodal' : null
}

/** The model may call a tool at any time, and a continuation by ids would send the call as text. */
function mayCall({ tools, tool_choice: choice }: JsonObject): boolean {
  if (choice === 'none') return false
  return (Array.isArray(tools) && tools.length > 0) || (isGiven(choice) && choice !== 'auto')
}

/** The reason of a completion: a text or one list of token ids can be continued. */
export const completionBarrier = ({ prompt }: JsonObject): NotContinued | null =>
  typeof prompt === 'string' || (Array.isArray(prompt) && typeof prompt[0] === 'number') || isLongText(prompt)
    ? null
    : 'several_choices'

/** A long prompt is not a string here, but an object that stands for its text. */
const isLongText = (prompt: unknown): boolean => typeof prompt === 'object' && prompt !== null && !Array.isArray(prompt)

function stopsOf(stop: unknown): readonly string[] {
  const stops: readonly unknown[] = typeof stop === 'string' ? [stop] : Array.isArray(stop) ? stop : []
  return stops.filter((one): one is string => typeof one === 'string' && one !== '')
}
