/** Properties of a body that prevent a split or make the engine compute the whole prompt. */
import { isText } from '../core/tokens/utf8-text.ts'

type Json = Readonly<Record<string, unknown>>

/** Why a request cannot be split: the prefill leg generates one token of one response to one prompt. null: it can. */
export function unsplittableReason(json: Json): string | null {
  for (const name of ['n', 'best_of']) if (Number(json[name]) > 1) return `${name} is more than 1`
  if (isOn(json['use_beam_search'])) return 'beam search'
  if (isOn(json['echo'])) return 'echo'
  const { prompt_logprobs: promptLogprobs } = json
  if (promptLogprobs !== undefined && promptLogprobs !== null) return 'prompt_logprobs'
  // The response precedes the computation, so there is nothing to transfer yet.
  if (isOn(json['background'])) return 'background'
  return severalPrompts(json['prompt']) ? 'several prompts' : null
}

/**
 * Whether the prompt's tokens are scored. vLLM then reads no cache (`skip_reading_prefix_cache`). `echo` scores them
 * if tokens of the response are scored; in a chat always.
 */
export function bypassesPrefixCache(json: Json): boolean {
  return json['prompt_logprobs'] != null || (isOn(json['echo']) && (json['logprobs'] ?? json['messages']) != null)
}

/** Truth values as engines read them (pydantic). */
export const isOn = (value: unknown): boolean =>
  value === true || value === 1 || (typeof value === 'string' && /^(?:1|t|true|y|yes|on)$/i.test(value))

/** vLLM's `VLLM_MAX_N_SEQUENCES`. Sums over requests include it, so a client's 2^53 must not dominate them. */
const MAX_SEQUENCES = 16_384

/** Number of parallel responses: `n` per prompt. */
export function sequencesOf({ n, prompt }: Json): number {
  const choices = Number(n)
  return Math.min(
    MAX_SEQUENCES,
    (Number.isSafeInteger(choices) && choices > 1 ? choices : 1) * (severalPrompts(prompt) ? prompt.length : 1),
  )
}

/** A list of ids is one prompt; a list of texts or lists is several. */
function severalPrompts(prompt: unknown): prompt is readonly unknown[] {
  return Array.isArray(prompt) && prompt.length > 1 && typeof prompt[0] !== 'number'
}

/**
 * The estimate of production-stack#890, for thresholds that were tuned there: a quarter of the code points of the
 * prompt or the messages' text, ids as they are, 0 for anything else. It is far too low for Chinese and Japanese. A
 * single text in a list counts as the text, where #890 counts one token.
 */
export function estimateTokensByChars(json: Json): number {
  const { prompt: rawPrompt, messages, system } = json
  const prompt: unknown =
    Array.isArray(rawPrompt) && rawPrompt.length === 1 && typeof rawPrompt[0] !== 'number' ? rawPrompt[0] : rawPrompt
  if (isText(prompt)) return Math.floor(characters(String(prompt)) / 4)
  if (Array.isArray(prompt)) return prompt.length
  if (!Array.isArray(messages)) return 0
  let sum = charactersOf(system)
  for (const message of messages as (Json | null)[]) sum += charactersOf(message?.['content'])
  return Math.floor(sum / 4)
}

function charactersOf(content: unknown): number {
  if (isText(content)) return characters(String(content))
  if (!Array.isArray(content)) return 0
  let sum = 0
  for (const part of content as (Json | null)[])
    if (part?.['type'] === 'text' && isText(part['text'])) sum += characters(String(part['text']))
  return sum
}

/** Code points: a surrogate pair is one. */
function characters(text: string): number {
  let pairs = 0
  for (let at = 0; at < text.length; at++) if ((text.charCodeAt(at) & 0xfc00) === 0xdc00) pairs++
  return text.length - pairs
}
