import type { Sequence } from './sequence.ts'

/**
 * Duration of one engine step in milliseconds. The prefill terms follow the law measured on real vLLM servers, `fixed
 * + a*new + b*(total² − cached²)/2`; the decode terms are linear in the batch and its context.
 */
export interface StepCostModel {
  /** Per step. */
  readonly stepMs: number
  /** Added to a step with any prefill. */
  readonly prefillStepMs: number
  /** Per computed prompt token. */
  readonly prefillTokenMs: number
  /** Per pair of a computed prompt token and an earlier token. */
  readonly prefillPairMs: number
  /** Per sequence that gets its next token. */
  readonly decodeSequenceMs: number
  /** Per token of context of those sequences. */
  readonly decodeContextTokenMs: number
  /**
   * Mixture of experts: time to read the weights of all experts. A step reads those that its tokens selected. Absent:
   * 0.
   */
  readonly expertsMs?: number
  /** Share of the experts that one token selects. */
  readonly expertShare?: number
  /** Per image, audio or video to encode. */
  readonly encodeItemMs: number
  /** KV blocks from another engine: fixed, and per token. */
  readonly transferMs: number
  readonly transferTokenMs: number
}

/** Prompts that an engine has yet to compute; the last one is the one in question. */
interface PrefillWork {
  /** Tokens of all prompts, neither computed nor cached. */
  readonly tokens: number
  /** Pairs of those tokens and the tokens before each, see {@link pairsOf}. */
  readonly pairs: number
  /** Tokens of the last prompt, including cached ones. */
  readonly promptTokens: number
}

/**
 * Number of pairs of a computed token and an earlier one, in a prompt of `total` tokens whose first `cached` are not
 * computed.
 */
export function pairsOf(total: number, cached: number): number {
  return (total * total - cached * cached) / 2
}

/**
 * Time to first token on an idle engine without network, milliseconds.
 * @param promptTokens all tokens
 * @param cachedTokens leading tokens in the prefix cache
 * @param budgetTokens token budget of one step
 */
export function idleTtftMs(
  costModel: StepCostModel,
  promptTokens: number,
  cachedTokens: number,
  budgetTokens: number,
): number {
  return prefillMs(
    costModel,
    { tokens: promptTokens - cachedTokens, pairs: pairsOf(promptTokens, cachedTokens), promptTokens },
    budgetTokens,
    costModel.stepMs,
  )
}

/**
 * Time of the steps that compute the work, milliseconds.
 * @param budgetTokens token budget of one step
 * @param stepMs time of a step without this work
 */
export function prefillMs(
  costModel: StepCostModel,
  { tokens, pairs, promptTokens }: PrefillWork,
  budgetTokens: number,
  stepMs: number,
): number {
  const steps = Math.ceil(tokens / budgetTokens)
  const lastChunk = tokens - (steps - 1) * budgetTokens
  // A chunk of one token is a decode step for the engine.
  const single = lastChunk === 1 ? 1 : 0
  return (
    (steps - 1) * expertsReadMs(costModel, budgetTokens) +
    expertsReadMs(costModel, lastChunk) +
    steps * stepMs +
    (steps - single) * costModel.prefillStepMs +
    (tokens - single) * costModel.prefillTokenMs +
    (pairs - single * pairsOf(promptTokens, promptTokens - 1)) * costModel.prefillPairMs +
    single * (costModel.decodeSequenceMs + promptTokens * costModel.decodeContextTokenMs)
  )
}

/** Time of one step that computes `chunk` tokens of each of these sequences, ms. */
export function batchMs(costModel: StepCostModel, scheduled: readonly Sequence[]): number {
  let ms = costModel.stepMs
  let prefills = false
  let tokens = 0
  for (const sequence of scheduled) {
    const { chunk, computed } = sequence
    tokens += chunk
    // One token costs as much as a decode step.
    if (chunk === 1) {
      ms += costModel.decodeSequenceMs + costModel.decodeContextTokenMs * (computed + 1)
      continue
    }
    prefills = true
    const end = computed + chunk
    ms += costModel.prefillTokenMs * chunk + costModel.prefillPairMs * pairsOf(end, computed)
    if (sequence.encodeItemsDue > 0) {
      ms += costModel.encodeItemMs * sequence.encodeItemsDue
      sequence.encodeItemsDue = 0
    }
  }
  ms += expertsReadMs(costModel, tokens)
  return prefills ? ms + costModel.prefillStepMs : ms
}

/** A small batch leaves most experts unread, so a mixture of experts is faster there than a linear cost. */
function expertsReadMs({ expertsMs = 0, expertShare = 0 }: StepCostModel, tokens: number): number {
  return expertsMs === 0 ? 0 : expertsMs * (1 - (1 - expertShare) ** tokens)
}
