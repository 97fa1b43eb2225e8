import { badRequest, invalidBody } from './wire-error.ts'
import { rollHash } from '../block-pool.ts'

const bytesOf = (text: string): number[] => Array.from(new TextEncoder().encode(text))

/** A synthetic but stable log probability. The chosen token always has the highest. */
const logprobOf = (token: number, rank: number): number => -((rollHash(7, token) % 1000) / 1000) - rank * 2 - 0.001

/** Synthetic alternatives; the first is the token itself. */
const alternative = (piece: string, rank: number): string =>
  rank === 0 ? piece : `${piece}${String.fromCharCode(96 + rank)}`

interface TokenLogprob {
  readonly token: string
  readonly logprob: number
  readonly bytes: number[]
}

/** One entry of a chat's `logprobs.content`, with `count` alternatives. */
export function tokenLogprobs(
  piece: string,
  token: number,
  count: number,
): TokenLogprob & { top_logprobs: TokenLogprob[] } {
  const entry = (rank: number): TokenLogprob => {
    const text = alternative(piece, rank)
    return { token: text, logprob: logprobOf(token, rank), bytes: bytesOf(text) }
  }
  return { ...entry(0), top_logprobs: Array.from({ length: count }, (_, rank) => entry(rank)) }
}

/** A completion's `logprobs` for these tokens, the first of which stands at `offset` in the text. */
export function completionLogprobs(
  pieces: readonly string[],
  tokens: Uint32Array,
  count: number,
  offset: number,
): object {
  const offsets: number[] = []
  let at = offset
  for (const piece of pieces) {
    offsets.push(at)
    at += piece.length
  }
  return {
    text_offset: offsets,
    token_logprobs: pieces.map((_, index) => logprobOf(tokens[index]!, 0)),
    tokens: [...pieces],
    top_logprobs: pieces.map((piece, index) =>
      Object.fromEntries(
        Array.from({ length: Math.max(1, count) }, (_, rank) => [
          alternative(piece, rank),
          logprobOf(tokens[index]!, rank),
        ]),
      ),
    ),
  }
}

export type Body = Readonly<Record<string, unknown>>

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

const MOST_LOGPROBS = 20

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
  if (count !== null && count > MOST_LOGPROBS) {
    throw badRequest(
      `Requested sample logprobs of ${count}, which is greater than max allowed: ${MOST_LOGPROBS}`,
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

/** Reads a number; null if absent or null; pydantic's error otherwise. */
export function numberOf(body: Body, key: string): number | null {
  const value = body[key]
  if (value === undefined || value === null) return null
  if (typeof value === 'number') return value
  if (typeof value !== 'string') {
    throw invalidBody({
      type: 'float_type',
      loc: `body.${key}`,
      message: 'Input should be a valid number',
      input: value,
    })
  }
  const parsed = Number(value)
  if (value.trim() !== '' && Number.isFinite(parsed)) return parsed
  throw invalidBody({
    type: 'float_parsing',
    loc: `body.${key}`,
    message: 'Input should be a valid number, unable to parse string as a number',
    input: value,
  })
}

/** Reads a flag as pydantic does, including words for yes and no. */
export function flagOf(body: Body, key: string): boolean {
  const value = body[key]
  if (value === undefined || value === null) return false
  if (typeof value === 'boolean') return value
  const word = String(value).toLowerCase()
  if (['1', 'true', 't', 'yes', 'y', 'on'].includes(word)) return true
  if (['0', 'false', 'f', 'no', 'n', 'off'].includes(word)) return false
  throw invalidBody({
    type: 'bool_parsing',
    loc: `body.${key}`,
    message: 'Input should be a valid boolean, unable to interpret input',
    input: value,
  })
}

const pythonFloat = (value: number): string => (Number.isInteger(value) ? `${value}.0` : String(value))
