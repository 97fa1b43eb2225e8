import { type Body, flagOf, numberOf } from './body-fields.ts'
import { badRequest } from './wire-error.ts'

/** Sampling parameters, with vLLM's names. */
export interface Sampling {
  readonly n: number
  /** null: up to the context limit. */
  readonly maxTokens: number | null
  readonly minTokens: number
  readonly ignoreEos: boolean
  readonly stop: readonly string[]
  readonly temperature: number
  /** Number of requested alternatives per token; null: no logprobs. */
  readonly logprobs: number | null
  /** The prompt's tokens are scored, so all of them are computed. */
  readonly scoresPrompt: boolean
}

const MAX_LOGPROBS = 20

/**
 * Reads the sampling parameters with vLLM's validation. `maxTokensKeys`: names of the limit, the first present one
 * applies.
 */
export function readSampling(body: Body, maxTokensKeys: readonly string[]): Sampling {
  const temperature = numberOf(body, 'temperature') ?? 1
  if (temperature < 0) {
    throw badRequest(
      `temperature must be non-negative, got ${pythonFloat(temperature)}.`,
      'temperature',
      pythonFloat(temperature),
    )
  }
  const topP = numberOf(body, 'top_p') ?? 1
  if (!(topP > 0 && topP <= 1))
    throw badRequest(`top_p must be in (0, 1], got ${pythonFloat(topP)}.`, 'top_p', pythonFloat(topP))
  const n = numberOf(body, 'n') ?? 1
  if (n < 1) throw badRequest(`n must be at least 1, got ${n}.`)
  const maxTokens = firstNumber(body, maxTokensKeys)
  if (maxTokens !== null && maxTokens < 1)
    throw badRequest(`max_tokens must be at least 1, got ${maxTokens}.`, 'max_tokens', maxTokens)
  const minTokens = numberOf(body, 'min_tokens') ?? 0
  if (maxTokens !== null && minTokens > maxTokens) {
    throw badRequest(`min_tokens must be less than or equal to max_tokens=${maxTokens}, got ${minTokens}.`)
  }
  return {
    n,
    maxTokens,
    minTokens,
    ignoreEos: body['ignore_eos'] === true,
    stop: readStop(body['stop']),
    temperature,
    logprobs: readLogprobs(body),
    scoresPrompt: scoresPrompt(body),
  }
}

/** As in vLLM: an echo is scored like the answer; that of a chat has at least no alternatives. */
function scoresPrompt(body: Body): boolean {
  const { prompt_logprobs: own, logprobs, messages } = body
  if (own !== undefined && own !== null) return true
  return flagOf(body, 'echo') && (messages !== undefined || (logprobs !== undefined && logprobs !== null))
}

function readStop(stop: unknown): string[] {
  if (typeof stop === 'string') return stop === '' ? [] : [stop]
  if (!Array.isArray(stop)) return []
  return stop.filter((entry): entry is string => typeof entry === 'string' && entry !== '')
}

function readLogprobs(body: Body): number | null {
  const { logprobs } = body
  const count =
    typeof logprobs === 'number' ? logprobs : logprobs === true ? (numberOf(body, 'top_logprobs') ?? 0) : null
  if (count !== null && count > MAX_LOGPROBS) {
    throw badRequest(
      `Requested sample logprobs of ${count}, which is greater than max allowed: ${MAX_LOGPROBS}`,
      'logprobs',
      count,
    )
  }
  return count
}

function firstNumber(body: Body, keys: readonly string[]): number | null {
  for (const key of keys) {
    const value = numberOf(body, key)
    if (value !== null) return value
  }
  return null
}

const pythonFloat = (value: number): string => (Number.isInteger(value) ? `${value}.0` : String(value))
