import type { Sequence } from './sequence.ts'

/**
 * How long one engine step takes. The prefill terms are the law measured on real vLLM servers,
 * `fixed + a*new + b*(total² − cached²)/2`; the decode terms are linear in the batch and in its context.
 * All in milliseconds.
 */
export interface StepLaw {
  /** Of every step. */
  readonly stepMs: number
  /** On top, for a step that prefills anything. */
  readonly prefillStepMs: number
  /** For each prompt token computed. */
  readonly prefillTokenMs: number
  /** For each pair of a computed prompt token and a token before it. */
  readonly prefillPairMs: number
  /** For each sequence that gets its next token. */
  readonly decodeSequenceMs: number
  /** For each token of context of those sequences. */
  readonly decodeContextTokenMs: number
  /** Mixtures of experts: reading the weights of all of them. A step reads those that one of its tokens chose. Absent: 0. */
  readonly expertsMs?: number
  /** Share of the experts that one token chooses. */
  readonly expertShare?: number
  /** For each image, sound or video that must be encoded. */
  readonly encodeItemMs: number
  /** Fetching KV blocks from another engine: once, and for each token. */
  readonly transferMs: number
  readonly transferTokenMs: number
}

/** Prompts that an engine has yet to compute, the last of which is asked about. */
export interface PrefillWork {
  /** Of all of them, not yet computed or cached. */
  readonly tokens: number
  /** Of those tokens and the ones before each, see {@link pairsOf}. */
  readonly pairs: number
  /** Of the last prompt, with those that are cached. */
  readonly promptTokens: number
}

/** Pairs of a computed token and one before it, in a prompt of `total` tokens whose first `cached` need no computing. */
export function pairsOf(total: number, cached: number): number {
  return (total * total - cached * cached) / 2
}

/**
 * Time to first token on an idle engine, without network, milliseconds.
 * @param promptTokens all of them; @param cachedTokens leading ones found in the prefix cache; @param budgetTokens of one step
 */
export function idleTtftMs(
  costModel: StepLaw,
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

/** Time of the steps that compute all of it, milliseconds. @param budgetTokens of one step; @param stepMs of a step without this work in it */
export function prefillMs(
  costModel: StepLaw,
  { tokens, pairs, promptTokens }: PrefillWork,
  budgetTokens: number,
  stepMs: number,
): number {
  const steps = Math.ceil(tokens / budgetTokens)
  const lastChunk = tokens - (steps - 1) * budgetTokens
  // A chunk of one token is a decode step to the engine.
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
export function batchMs(costModel: StepLaw, scheduled: readonly Sequence[]): number {
  let ms = costModel.stepMs
  let prefills = false
  let tokens = 0
  for (const sequence of scheduled) {
    const { chunk, computed } = sequence
    tokens += chunk
    // One token costs what a decode step costs, whatever it is for.
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

/** Few tokens leave most experts unread, so that a small batch of a mixture of experts is quicker than a line would have it. */
function expertsReadMs({ expertsMs = 0, expertShare = 0 }: StepLaw, tokens: number): number {
  return expertsMs === 0 ? 0 : expertsMs * (1 - (1 - expertShare) ** tokens)
}
