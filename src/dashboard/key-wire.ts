/** Answers of `/v1/firstlight/keys` and `/v1/firstlight/usage`. */

interface Counts {
  readonly requests: number
  readonly refused: number
  readonly prompt_tokens: number
  readonly cached_tokens: number
  readonly output_tokens: number
}

/** Absent: no pool counts costs. */
interface Costs {
  readonly engine_s?: number
  readonly money?: number
}

export interface Key {
  readonly name: string
  readonly source: 'configuration' | 'issued'
  readonly owner?: string | null
  readonly team: string | null
  /** null: those of the team, or all. */
  readonly models: readonly string[] | null
  readonly limits: Readonly<Record<string, number | null>> | null
  readonly expires?: string | null
  readonly secrets?: readonly { readonly from: string | null; readonly expires: string | null }[]
  readonly usage?: Counts
}

export interface KeyList {
  readonly keys: readonly Key[]
  /** Whether keys can be made at run time. */
  readonly issued_keys: boolean
}

export interface UsageRow extends Costs, Partial<Counts> {
  readonly key?: string
  readonly team?: string
  readonly model?: string
}

export interface BudgetRow {
  readonly account: string
  readonly per: 'day' | 'month'
  readonly unit: string
  readonly limit: number
  readonly used: number
}

export interface Usage {
  readonly since: string
  readonly keys: readonly UsageRow[]
  readonly budgets?: readonly BudgetRow[]
  readonly teams?: readonly UsageRow[]
  readonly models?: readonly UsageRow[]
}
