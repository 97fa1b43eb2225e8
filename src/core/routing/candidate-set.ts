import type { Candidate, Signal } from './policy.ts'

/** Candidates for one role, in tie order. */
export interface CandidateSet {
  readonly engines: readonly { readonly id: string }[]
  /** Engines with all needed signals. Other signals may be outdated. Valid until the next call. */
  candidates(needs: readonly Signal[]): readonly Candidate[]
}

export function excluding(candidateSet: CandidateSet, engine: string): CandidateSet {
  return {
    engines: candidateSet.engines.filter(({ id }) => id !== engine),
    candidates: (needs) => candidateSet.candidates(needs).filter(({ id }) => id !== engine),
  }
}
