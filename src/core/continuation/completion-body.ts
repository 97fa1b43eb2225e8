/** The request to `/v1/completions` that continues a stream by its token ids. */
import type { JsonObject } from '../json.ts'
import type { Continuable } from './continuable.ts'

interface ContinuationInput {
  readonly request: Continuable
  /** Name under which the engine serves the model. */
  readonly model: string
  readonly promptIds: Uint32Array
  /** Ids of the output so far. */
  readonly outputIds: Uint32Array
  /** Context of the engine, tokens; read only if the request has no limit. */
  readonly maxModelLen: number
}

/** vLLM clamps biases to this. */
const MAX_BIAS = 100

/** Tokens that the output may still have; 0: the limit is reached. @testing */
export function tokensLeft({ request, promptIds, outputIds, maxModelLen: context }: ContinuationInput): number {
  return (limitOf(request) ?? context - promptIds.length) - outputIds.length
}

/** null: the engine's context is the limit. */
function limitOf({ sampling, defaultTokens }: Continuable): number | null {
  const { max_completion_tokens: newer, max_tokens: limit } = sampling
  return numberOf(newer) ?? numberOf(limit) ?? defaultTokens
}

/** True if the engine's context is the limit. */
export const needsModelLen = (request: Continuable): boolean => limitOf(request) === null

/**
 * Builds the body. Limits are reduced by the tokens so far. The seed is another one, because the same noise again would
 * correlate with the first part. Penalties count output tokens, which are prompt tokens here, so biases replace them.
 * @testing
 */
export function completionBody(input: ContinuationInput): JsonObject {
  const { request, model, promptIds, outputIds } = input
  const { max_completion_tokens: _limit, min_tokens: requestedMin, seed, ...same } = request.sampling
  const minTokens = Math.max(0, (numberOf(requestedMin) ?? 0) - outputIds.length)
  const bias = biases(request.sampling, outputIds)
  return {
    ...same,
    model,
    prompt: [...promptIds, ...outputIds],
    max_tokens: tokensLeft(input),
    ...(minTokens > 0 ? { min_tokens: minTokens } : {}),
    ...(typeof seed === 'number' ? { seed: otherSeed(seed, outputIds.length) } : {}),
    ...(bias === null ? {} : { logit_bias: bias }),
    return_token_ids: true,
    stream: true,
    stream_options: { include_usage: true },
  }
}

const numberOf = (value: unknown): number | null => (typeof value === 'number' ? value : null)

/** A seed that depends on both arguments, below 2^31. */
const otherSeed = (seed: number, tokens: number): number =>
  (Math.imul((seed | 0) ^ Math.imul(tokens + 1, 0x9e3779b1), 0x85ebca6b) >>> 1) & 0x7fffffff

/**
 * Client's biases less the penalties of the output so far: `frequency_penalty` for each occurrence of a token,
 * `presence_penalty` once. A token that occurs again is charged the presence penalty twice. null: no bias.
 */
function biases(sampling: JsonObject, outputIds: Uint32Array): Record<string, number> | null {
  const frequency = numberOf(sampling['frequency_penalty']) ?? 0
  const presence = numberOf(sampling['presence_penalty']) ?? 0
  if (frequency === 0 && presence === 0) return null
  const counts = new Map<number, number>()
  for (const id of outputIds) counts.set(id, (counts.get(id) ?? 0) + 1)
  const own = (sampling['logit_bias'] ?? {}) as Readonly<Record<string, number>>
  const out: Record<string, number> = { ...own }
  for (const [id, count] of counts) {
    const bias = (own[id] ?? 0) - frequency * count - presence
    out[id] = Math.max(-MAX_BIAS, Math.min(MAX_BIAS, bias))
  }
  return out
}
