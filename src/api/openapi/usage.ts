/** Requests, tokens and costs of keys, teams and models. */
import * as z from 'zod/mini'
import type { CostCounts } from '../../core/cost/cost-usage.ts'
import type { KeyCounts } from '../../core/limits/key-usage.ts'
import { component, described, number, text } from './fields.ts'
import type { View, ViewOf } from './view.ts'

export const counts = z.object({
  requests: number,
  refused: number,
  prompt_tokens: number,
  cached_tokens: number,
  output_tokens: number,
})

export type CountsView = ViewOf<typeof counts, KeyCounts>

const costs = z.object({
  attempts: described('Attempts whose cost was counted.', number),
  engine_s: described('Share in the busy time of the engines, seconds.', number),
  saved_s: described('Prefill that cached tokens have saved, seconds.', number),
  money: described('By `price_per_engine_hour`.', number),
})

export type CostsView = ViewOf<typeof costs, CostCounts>

const budget = z.object({
  account: described('Name of a key, or `team:` and the name of a team.', text),
  per: z.enum(['day', 'month']),
  unit: text,
  limit: number,
  used: number,
  at_end: z.enum(['refuse', 'sheddable']),
  resets_at: text.with(z.meta({ format: 'date-time' })),
})

export type BudgetView = View<typeof budget>

export const usage = component(
  'Usage',
  z.object({
    since: text.with(z.meta({ format: 'date-time' })),
    // Absent costs: no pool counts them.
    keys: z.array(z.object({ key: text, ...counts.shape, ...z.partial(costs).shape })),
    budgets: z.optional(described('Budgets of keys and teams of the configuration.', z.array(budget))),
    teams: z.optional(z.array(z.object({ team: text, ...costs.shape }))),
    models: z.optional(z.array(z.object({ model: text, ...costs.shape }))),
  }),
)

export type UsageView = View<typeof usage>
