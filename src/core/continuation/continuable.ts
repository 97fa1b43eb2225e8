/** Which requests can be continued at another engine by token ids, and what of a request a continuation repeats. */
import type { JsonObject } from '../json.ts'

/** Configured in `retry.mid_stream`. */
export type MidStream = 'off' | 'ids' | 'replay'

/** Why a stream cannot be continued, as log, metric and error event name it. */
export type NotContinued =
  /** The endpoint returns no token ids (Responses, Messages, audio). */
  | 'endpoint'
  /** `n`, `best_of`, beam search or several prompts: one connection carries several states. */
  | 'several_choices'
  /** Token ids of images and audio are placeholders. */
  | 'multimodal'
  /** A grammar has a state that token ids do not carry. */
  | 'structured_output'
  /** Only the chat endpoint parses tool calls, and one may begin at any time. */
  | 'tools'
  | 'reasoning'
  | 'logprobs'
  | 'echo'
  | 'prompt_embeds'
  /** The first engine is another gateway, which continues streams itself. */
  | 'gateway'
  /** The answer is composed of those of two engines. */
  | 'split_answer'
  /** The engine sent no token ids. */
  | 'no_token_ids'
  /** The output ends in U+FFFD: its last character is incomplete, or the engine cannot decode it. */
  | 'incomplete_character'
  /** The ids do not decode to the text that was sent. */
  | 'text_differs'
  /** The other engine did not use the ids as its prompt, or its first text is not that of its first ids. */
  | 'wrong_continuation'
  /** The repetition of the request has other output than the failed engine sent. */
  | 'replay_differs'
  /** The output took longer than `retry.mid_stream_replay_ms`. */
  | 'replay_too_long'
  /** The limit `retry.mid_stream_max` is reached. */
  | 'attempts'
  /** The retry budget is spent. */
  | 'retry_budget'
  /** No other engine has room. */
  | 'no_engine'
  /** The engine that should have continued it failed. */
  | 'engine_failed'

const CHAT = /^\/v1\/chat\/completions(?:\?|$)/
const COMPLETIONS = /^\/v1\/completions(?:\?|$)/

/** Sampling parameters that a continuation repeats unchanged. Others are adapted (`completionBody`) or excluded. */
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

/** A request that can be continued. It has no reference to the prompt. */
export interface Continuable {
  readonly api: 'chat' | 'completions'
  /** Parameters of the request that its continuation repeats or adapts. */
  readonly sampling: JsonObject
  readonly stops: readonly string[]
  /** The client asked for token ids, so they are not hidden. */
  readonly showsIds: boolean
  /** The client asked for the usage record. */
  readonly showsUsage: boolean
  /** The request may be repeated: an engine gives the same output again. */
  readonly repeats: boolean
  /** Why it cannot be continued by ids, only repeated; null: it can. */
  readonly barrier: NotContinued | null
}

/** Reasons against ids that do not apply to a repetition of the whole request. */
const REPEATABLE: ReadonlySet<NotContinued> = new Set(['structured_output', 'tools', 'reasoning', 'multimodal', 'echo'])

export const isRepeatable = (reason: NotContinued): boolean => REPEATABLE.has(reason)

/**
 * Returns what a continuation of this request needs, or why it cannot be continued.
 * @param mode `replay`: the request may be repeated if its output is deterministic
 */
export function continuable(path: string, body: JsonObject, mode: MidStream = 'ids'): Continuable | NotContinued {
  const isChat = CHAT.test(path)
  if (!isChat && !COMPLETIONS.test(path)) return 'endpoint'
  const reason = excluded(body, isChat)
  const repeats = mode === 'replay' && isDeterministic(body) && body['include_reasoning'] !== false
  if (reason !== null && !(repeats && REPEATABLE.has(reason))) return reason
  const { stream_options: options } = body
  return {
    api: isChat ? 'chat' : 'completions',
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

const isGiven = (value: unknown): boolean => value !== undefined && value !== null
const isOn = (value: unknown): boolean => isGiven(value) && value !== false

function excluded(body: JsonObject, isChat: boolean): NotContinued | null {
  if ((isGiven(body['n']) && body['n'] !== 1) || (isGiven(body['best_of']) && body['best_of'] !== 1))
    return 'several_choices'
  if (isOn(body['use_beam_search'])) return 'several_choices'
  if (GRAMMARS.some((name) => isOn(body[name])) || hasFormat(body['response_format'])) return 'structured_output'
  if (isOn(body['echo'])) return 'echo'
  if (isOn(body['logprobs']) || isOn(body['top_logprobs']) || isOn(body['prompt_logprobs'])) return 'logprobs'
  if (isOn(body['prompt_embeds'])) return 'prompt_embeds'
  if (body['include_reasoning'] === false) return 'reasoning'
  if (!isChat) return isSinglePrompt(body['prompt']) ? null : 'several_choices'
  if (mayCall(body)) return 'tools'
  return hasMedia(body['messages']) ? 'multimodal' : null
}

/** The model may call a tool at any time, and a continuation by ids would send the call as text. */
function mayCall({ tools, tool_choice: choice }: JsonObject): boolean {
  if (choice === 'none') return false
  return (Array.isArray(tools) && tools.length > 0) || (isGiven(choice) && choice !== 'auto')
}

/** Fields that make vLLM compile a grammar. */
const GRAMMARS = ['structured_outputs', 'guided_json', 'guided_regex', 'guided_choice', 'guided_grammar'] as const

const hasFormat = (format: unknown): boolean => isGiven(format) && (format as { type?: unknown }).type !== 'text'

/** A text, or one list of token ids. */
const isSinglePrompt = (prompt: unknown): boolean =>
  typeof prompt === 'string' || (Array.isArray(prompt) && typeof prompt[0] === 'number') || isLongText(prompt)

/** A long prompt is not a string here, but an object that stands for its text. */
const isLongText = (prompt: unknown): boolean => typeof prompt === 'object' && prompt !== null && !Array.isArray(prompt)

function hasMedia(messages: unknown): boolean {
  if (!Array.isArray(messages)) return false
  return messages.some((message: unknown) => {
    const content = (message as { content?: unknown } | null)?.content
    return Array.isArray(content) && content.some((part: unknown) => !isTextPart(part))
  })
}

const isTextPart = (part: unknown): boolean =>
  typeof part === 'string' || ['text', 'refusal'].includes(String((part as { type?: unknown } | null)?.type))

function stopsOf(stop: unknown): readonly string[] {
  const stops: readonly unknown[] = typeof stop === 'string' ? [stop] : Array.isArray(stop) ? stop : []
  return stops.filter((one): one is string => typeof one === 'string' && one !== '')
}
