/**
 * The part of a prefill leg that all protocols share: one token, no stream, nothing that fails on or waits for one
 * token. Everything that forms the prompt (messages, tools, template arguments, salt) stays, so that the decode engine
 * gets the same blocks.
 */
import { isJsonObject, type JsonObject } from '../core/json.ts'
import type { FieldEdit, Splitting } from './protocol.ts'
import { isGiven, isOn, isSeveralPrompts } from './request-fields.ts'

/** Limits of the output under all names. The default of an absent one may be large. */
const LIMITS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const

/** Fields that cost time or contradict a single token, and do not change the prompt. */
const DROPPED = [
  'stream_options',
  'n',
  'best_of',
  'min_tokens',
  'min_completion_tokens',
  'thinking_token_budget',
  'return_token_ids',
  // One of these without the others is a 400.
  'logprobs',
  'top_logprobs',
  'prompt_logprobs',
  'logprob_token_ids',
  // One token of a grammar is no valid document; some engines answer 400 or 500, and compiling it costs time.
  'response_format',
  'structured_outputs',
  'guided_json',
  'guided_regex',
  'guided_choice',
  'guided_grammar',
  // SGLang's names of grammars.
  'json_schema',
  'regex',
  'ebnf',
  'structural_tag',
] as const

/** What a protocol adds to the shared edit. */
interface PrefillChanges {
  /** Name of the limit that is set if the request has none. */
  readonly limit: string
  /** Further values to set, as JSON text. */
  readonly set?: Readonly<Record<string, string>>
  readonly remove?: readonly string[]
}

export function prefillEdit(body: JsonObject, { limit, set = {}, remove = [] }: PrefillChanges): FieldEdit {
  const out: Record<string, string> = { ...set }
  for (const name of LIMITS) if (name === limit || Object.hasOwn(body, name)) out[name] = '1'
  if (body['stream'] !== undefined && body['stream'] !== false) out['stream'] = 'false'
  return { set: out, remove: [...DROPPED, ...remove] }
}

/**
 * `tool_choice` of a prefill leg in OpenAI's form. `required` and a named tool demand a whole call, which one token is
 * not: vLLM answers 400 or 500. `auto` keeps the tools in the prompt; `none` may remove them.
 */
export const freeToolChoice = ({ tool_choice: choice }: JsonObject): Readonly<Record<string, string>> =>
  choice === 'required' || isJsonObject(choice) ? { tool_choice: '"auto"' } : {}

/** Why a request cannot be split: the prefill leg generates one token of one answer to one prompt. null: it can. */
export function unsplittableReason(body: JsonObject): string | null {
  for (const name of ['n', 'best_of']) if (Number(body[name]) > 1) return `${name} is more than 1`
  if (isOn(body['use_beam_search'])) return 'beam search'
  if (isOn(body['echo'])) return 'echo'
  if (isGiven(body['prompt_logprobs'])) return 'prompt_logprobs'
  // The response precedes the computation, so there is nothing to transfer yet.
  if (isOn(body['background'])) return 'background'
  return isSeveralPrompts(body['prompt']) ? 'several prompts' : null
}

/** Splitting of chats and completions. */
export const openaiSplitting: Splitting = {
  unsplittable: unsplittableReason,
  prefillEdit: (body) => prefillEdit(body, { limit: 'max_tokens', set: freeToolChoice(body) }),
}
