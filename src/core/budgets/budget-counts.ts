/** Warnings and refusals by account: a key, or `team:NAME`. */
export interface BudgetCounts {
  readonly warned: Readonly<Record<string, number>>
  readonly refused: Readonly<Record<string, number>>
}
