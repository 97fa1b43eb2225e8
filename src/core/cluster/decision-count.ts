/** Choices of one kind since the object began, as its digest tells them. Every label is of a closed list. */
export interface DecisionCount {
  /** '': refused. */
  readonly policy: string
  /** The policy that could not be used; '': none. */
  readonly fallback: string
  /** Not the first attempt of its request. */
  readonly retry: boolean
  /** Kind of the placement; '': refused. */
  readonly placement: string
  /** Why nobody was chosen; '': somebody was. */
  readonly refused: string
  readonly count: number
}
