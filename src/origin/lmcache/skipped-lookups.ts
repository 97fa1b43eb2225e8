/**
 * Reason for a skipped lookup. `circuit_open`: LMCache failed too often. `tokenize_paused`: no engine may be asked for
 * token ids at present. `tokenize_late`: tokenization used up the budget. `tokenize_failed`: the engine returned no
 * ids. `unsupported`: an adapter, several prompts in one request, or no token ids of the text before an image.
 */
export type SkipReason = 'circuit_open' | 'tokenize_paused' | 'tokenize_late' | 'tokenize_failed' | 'unsupported'

/** Counts by reason. */
export type SkipCounts = Readonly<Record<string, number>>

/** Counter of the skipped lookups of one pool. */
export class SkipCounter {
  readonly #counts: Record<string, number> = {}

  get counts(): SkipCounts {
    return { ...this.#counts }
  }

  readonly count = (reason: SkipReason): void => {
    this.#counts[reason] = (this.#counts[reason] ?? 0) + 1
  }
}
