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
  /** Did the shadow policy choose the same? '': there is none. Absent from older objects, as is the next. */
  readonly shadow?: '' | 'agrees' | 'differs'
  /** Seconds by which the shadow's first tokens were expected sooner, summed; negative: later. */
  readonly shadowGainS?: number
}
