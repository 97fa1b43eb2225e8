/** A time budget that several steps share. */
export interface Deadline {
  readonly budgetMs: number
  readonly signal: AbortSignal
  readonly isOver: boolean
  readonly leftMs: number
  /** null: the budget is spent before the work is done. */
  within<Value>(work: Promise<Value>): Promise<{ readonly value: Value } | null>
}
