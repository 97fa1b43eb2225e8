import type { Sequence } from '../sequence.ts'
import type { Choice } from './job.ts'

export interface Totals {
  readonly promptTokens: number
  readonly completionTokens: number
  readonly cachedTokens: number
  /** Prompt tokens in full blocks that were not cached before. */
  readonly createdTokens: number
}

/** Computes the usage of a request. A prompt shared by several choices counts once. */
export function totalsOf(
  choices: readonly Choice[],
  sequences: readonly Sequence[],
  promptCount: number,
  blockTokens: number,
): Totals {
  const perPrompt = choices.length / promptCount
  let promptTokens = 0
  let completionTokens = 0
  let cachedTokens = 0
  let createdTokens = 0
  sequences.forEach((sequence, at) => {
    completionTokens += sequence.outputs
    if (at % perPrompt !== 0) return
    // For fetched tokens, a NIXL engine reports only what the prefill engine had cached, even if it has the blocks
    // itself by now.
    const cached = sequence.spec.remote ? 0 : Math.max(0, sequence.cachedTokens)
    promptTokens += sequence.spec.promptTokens
    cachedTokens += cached
    createdTokens += Math.max(0, Math.floor(sequence.spec.promptTokens / blockTokens) * blockTokens - cached)
  })
  return { promptTokens, completionTokens, cachedTokens, createdTokens }
}

const counts = (totals: Totals): object => ({
  prompt_tokens: totals.promptTokens,
  total_tokens: totals.promptTokens + totals.completionTokens,
  completion_tokens: totals.completionTokens,
})

/** Usage of a non-streaming answer. Only chats report created tokens. */
export const usageOf = (totals: Totals, chat: boolean): object => ({
  ...counts(totals),
  prompt_tokens_details: {
    cached_tokens: totals.cachedTokens,
    created_cache_tokens: chat ? totals.createdTokens : null,
    multimodal_tokens: null,
  },
  completion_tokens_details: null,
})

/** Usage of a stream's last record. vLLM omits unset fields. */
export const streamUsageOf = (totals: Totals, chat: boolean): object => ({
  ...counts(totals),
  prompt_tokens_details: {
    cached_tokens: totals.cachedTokens,
    ...(chat ? { created_cache_tokens: totals.createdTokens } : {}),
  },
})

/** Usage of a record in the middle of a stream. */
export const runningUsage = (promptTokens: number, completionTokens: number): object => ({
  prompt_tokens: promptTokens,
  total_tokens: promptTokens + completionTokens,
  completion_tokens: completionTokens,
  completion_tokens_details: null,
})

/** Metrics at the end of a stream, without null fields; {} if there are none. */
export function streamMetricsOf(sequences: readonly Sequence[]): object {
  const metrics = metricsOf(sequences)
  if (metrics === null) return {}
  return { metrics: Object.fromEntries(Object.entries(metrics).filter(([, value]) => value !== null)) }
}

/** vLLM's per-request metrics; null for several choices. TTFT counts from scheduling, not from arrival. */
export function metricsOf(sequences: readonly Sequence[]): Record<string, number | null> | null {
  const [sequence] = sequences
  if (sequence === undefined || sequences.length > 1 || sequence.firstTokenAt < 0) return null
  const ttft = sequence.firstTokenAt - sequence.scheduledAt
  const generation = sequence.lastTokenAt - sequence.firstTokenAt
  return {
    time_to_first_token_ms: ttft,
    generation_time_ms: generation,
    queue_time_ms: sequence.scheduledAt - sequence.arrivedAt,
    mean_itl_ms: sequence.outputs > 1 ? generation / (sequence.outputs - 1) : null,
    tokens_per_second: ttft + generation > 0 ? (sequence.outputs / (ttft + generation)) * 1000 : 0,
  }
}
