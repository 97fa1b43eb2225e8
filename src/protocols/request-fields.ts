/** Values of request fields as engines read them. */
import type { JsonObject } from '../core/json.ts'

/** Truth values as engines read them (pydantic). */
export const isOn = (value: unknown): boolean =>
  value === true || value === 1 || (typeof value === 'string' && /^(?:1|t|true|y|yes|on)$/i.test(value))

export const isGiven = (value: unknown): boolean => value !== undefined && value !== null

/** First field of `names` with a number that is not negative. null: none has one. */
export function numberOf(body: JsonObject, names: readonly string[]): number | null {
  for (const name of names) {
    const value = body[name]
    if (typeof value === 'number' && value >= 0) return value
  }
  return null
}

/** A list of ids is one prompt; a list of texts or lists is several. */
export const isSeveralPrompts = (prompt: unknown): prompt is readonly unknown[] =>
  Array.isArray(prompt) && prompt.length > 1 && typeof prompt[0] !== 'number'

/** vLLM's `VLLM_MAX_N_SEQUENCES`. Sums over requests include it, so a client's 2^53 must not dominate them. */
const MAX_SEQUENCES = 16_384

/** Number of parallel answers: `n` per prompt. */
export function sequencesOf({ n, prompt }: JsonObject): number {
  const choices = Number(n)
  const each = Number.isSafeInteger(choices) && choices > 1 ? choices : 1
  return Math.min(MAX_SEQUENCES, each * (isSeveralPrompts(prompt) ? prompt.length : 1))
}

/**
 * Whether the prompt's tokens are scored. vLLM then reads no cache (`skip_reading_prefix_cache`). `echo` scores them
 * if tokens of the response are scored; in a chat always.
 */
export const scoresPrompt = (body: JsonObject): boolean =>
  isGiven(body['prompt_logprobs']) || (isOn(body['echo']) && isGiven(body['logprobs'] ?? body['messages']))
