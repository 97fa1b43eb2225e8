/**
 * What a continuation of a stream at another engine needs of its request, and the reasons why there is none. The rules
 * by which a protocol decides are in protocols/continuation-rules.ts.
 */
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

/** A request that can be continued. It has no reference to the prompt. */
export interface Continuable {
  /** Output tokens of a request without a limit. null: up to the end of the context. */
  readonly defaultTokens: number | null
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
