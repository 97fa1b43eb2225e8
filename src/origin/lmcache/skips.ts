/**
 * Why no lookup was made where the policy reads one. `circuit_open`: LMCache failed too often. `tokenize_paused`: no
 * engine may be asked for token ids now. `tokenize_late`: the budget ran out while an engine was asked.
 * `tokenize_failed`:
 * the engine gave no ids. `unsupported`: an adapter, pictures or sound, or several prompts in one request.
 */
export type SkipReason = 'circuit_open' | 'tokenize_paused' | 'tokenize_late' | 'tokenize_failed' | 'unsupported'

/** By reason. */
export type SkipCounts = Readonly<Record<string, number>>

/** Counter of the lookups of one pool that were not made. */
export class Skips {
  readonly #counts: Record<string, number> = {}

  get counts(): SkipCounts {
    return { ...this.#counts }
  }

  readonly count = (reason: SkipReason): void => {
    this.#counts[reason] = (this.#counts[reason] ?? 0) + 1
  }
}

/** Sums of counters, by name. */
export function sumCounts(all: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  const sums: Record<string, number> = {}
  for (const counts of all) for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count
  return sums
}
