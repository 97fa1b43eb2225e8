import type { BodyEdit } from '../exchange.ts'

type Json = Readonly<Record<string, unknown>>

/** Limits of the answer's length, as the endpoints call them. Where one is absent its default may be long. */
const LIMITS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const

/** Cost time or contradict one token, and change nothing of the prompt. */
const DROPPED = [
  'stream_options', 'min_tokens', 'min_completion_tokens', 'thinking_token_budget', 'return_token_ids',
  // One of these without the others is a 400.
  'logprobs', 'top_logprobs', 'prompt_logprobs', 'logprob_token_ids',
] as const

/**
 * What a prefill leg has otherwise than the client's request: one token, in one piece, and nothing that delays it. Whatever
 * makes the prompt (messages, tools, template arguments, salt) stays, or the decode engine would be given other blocks.
 */
export function prefillEdit(path: string, json: Json, params: Readonly<Record<string, string>>): BodyEdit {
  const responses = path.startsWith('/v1/responses')
  const limit = responses ? 'max_output_tokens' : 'max_tokens'
  const set: Record<string, string> = { ...params }
  for (const name of LIMITS) if (name === limit || Object.hasOwn(json, name)) set[name] = '1'
  if (json['stream'] !== undefined && json['stream'] !== false) set['stream'] = 'false'
  // One answer is kept: that of the decode leg.
  if (responses) set['store'] = 'false'
  return { set, remove: DROPPED }
}
