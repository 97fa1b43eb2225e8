/** Token counts that an engine reports, in the gateway's own terms. A count that is absent is unknown, never zero. */
import type { Usage } from '../core/contract/outcome.ts'
import type { UsedTokens } from '../core/limits/used-tokens.ts'
import { isJsonObject, type JsonObject } from '../core/json.ts'

/** Counts of one `usage` object, or of all usage objects of a stream. null: not reported. */
export interface ReportedUsage {
  /** All tokens of the prompt, with those from the cache. */
  readonly promptTokens: number | null
  readonly cachedTokens: number | null
  readonly outputTokens: number | null
}

export const NO_USAGE: ReportedUsage = { promptTokens: null, cachedTokens: null, outputTokens: null }

/** Upper limit of a plausible count. A larger one is an engine's defect and would falsify what is learned. */
const MAX_TOKENS = 1e9

/** null: the value is no plausible count. */
const countOf = (value: unknown): number | null =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= MAX_TOKENS ? value : null

const detailsOf = (value: unknown): JsonObject => (isJsonObject(value) ? value : {})

/** Usage of chat, completions and audio: `prompt_tokens` counts cached tokens, too. */
export const usageOfPromptTokens = (fields: JsonObject): ReportedUsage => ({
  promptTokens: countOf(fields['prompt_tokens']),
  cachedTokens: countOf(detailsOf(fields['prompt_tokens_details'])['cached_tokens']),
  outputTokens: countOf(fields['completion_tokens']),
})

/** Usage of responses: `input_tokens` counts cached tokens, too. */
export const usageOfInputTokens = (fields: JsonObject): ReportedUsage => ({
  promptTokens: countOf(fields['input_tokens']),
  cachedTokens: countOf(detailsOf(fields['input_tokens_details'])['cached_tokens']),
  outputTokens: countOf(fields['output_tokens']),
})

/**
 * Usage of messages. Anthropic and vLLM since 0.32 leave cached and created tokens out of `input_tokens` and report
 * them apart. Older vLLM, and vLLM without `--enable-prompt-tokens-details`, have no such fields, and `input_tokens`
 * is the whole prompt. The sum is right in both cases.
 */
export function usageOfUncachedTokens(fields: JsonObject): ReportedUsage {
  const input = countOf(fields['input_tokens'])
  const cached = countOf(fields['cache_read_input_tokens'])
  const created = countOf(fields['cache_creation_input_tokens'])
  return {
    promptTokens: input === null ? null : input + (cached ?? 0) + (created ?? 0),
    cachedTokens: cached,
    outputTokens: countOf(fields['output_tokens']),
  }
}

/** Usage of requests that generate nothing (embeddings, scores). Some report `total_tokens` alone. */
export const usageWithoutOutput = (fields: JsonObject): ReportedUsage => ({
  promptTokens: countOf(fields['prompt_tokens'] ?? fields['total_tokens']),
  cachedTokens: countOf(detailsOf(fields['prompt_tokens_details'])['cached_tokens']),
  outputTokens: 0,
})

/** Merges two `usage` objects of one stream: the later value of each field counts. */
export const mergedFields = (earlier: JsonObject | null, later: JsonObject): JsonObject => {
  if (earlier === null) return later
  const merged: Record<string, unknown> = { ...earlier }
  for (const key of Object.keys(later)) if (later[key] !== null && later[key] !== undefined) merged[key] = later[key]
  return merged
}

/** The usage for reports. null: the engine did not report the prompt's length. */
export const completeUsage = ({ promptTokens, cachedTokens, outputTokens }: ReportedUsage): Usage | null =>
  promptTokens === null ? null : { promptTokens, completionTokens: outputTokens ?? 0, cachedTokens }

/**
 * Tokens of a request that an engine has begun: reported counts where there are any, the gateway's own for the rest. An
 * aborted stream has no final usage, so its output is the number of output events.
 */
export const usedTokens = (
  reported: ReportedUsage | null,
  own: { readonly promptTokens: number; readonly outputEvents: number },
): UsedTokens => ({
  promptTokens: reported?.promptTokens ?? own.promptTokens,
  outputTokens: reported?.outputTokens ?? own.outputEvents,
})
