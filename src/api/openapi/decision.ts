/** Routing decisions, and dry runs. */
import * as z from 'zod/mini'
import type { Decision } from '../../core/contract/decision.ts'
import type { Refusal } from '../../core/contract/refusal.ts'
import { component, described, flag, milliseconds, number, stages, text, texts } from './fields.ts'
import type { View, ViewOf } from './view.ts'

const placement = component(
  'Placement',
  z.object({
    kind: z.enum(['whole', 'split', 'staged']),
    engine: z.optional(text),
    prefill: z.optional(z.nullable(text)),
    decode: z.optional(text),
    encode: z.optional(texts),
    adapter: z.optional(
      described('Adapters that the gateway unloads and loads first.', z.object({ load: text, unload: texts })),
    ),
    runners_up: texts,
  }),
)

const shadow = z.object({
  policy: text,
  engine: text,
  predicted_ttft_ms: z.nullable(number),
  agrees: z.optional(flag),
  predicted_gain_ms: z.optional(z.nullable(number)),
})

export const decision = component(
  'Decision',
  z.object({
    id: text,
    at: milliseconds,
    cluster: text,
    pool: text,
    model: text,
    attempt: number,
    hedge: z.optional(described('A second engine beside that of an earlier attempt, which still runs.', flag)),
    session: z.optional(described('Session that the client names.', text)),
    prompt_tokens: number,
    token_source: text,
    policy: text,
    fallback: z.nullable(z.object({ from: text, reason: text })),
    placement,
    split: z.optional(z.object({ taken: flag, why: text })),
    candidates: z.array(z.object({ engine: text, cost: number, terms: z.record(z.string(), number) })),
    excluded: z.array(z.object({ engine: text, reason: text })),
    panic: z.optional(flag),
    moved_from: z.optional(text),
    waited_ms: z.optional(number),
    predicted_ttft_ms: z.nullable(number),
    predicted_place_wait_ms: z.optional(described('Part of it until the engine has a place.', z.nullable(number))),
    predicted_itl_ms: z.optional(described('Time between two tokens of the response.', z.nullable(number))),
    predicted_cached_tokens: z.nullable(number),
    shadow: z.nullable(described('Choice of the shadow policy.', shadow)),
    retry_refused: z.optional(text),
    first_token: z.optional(z.object({ ttft_ms: number, stages })),
    actual: z.nullable(
      z.object({
        ttft_ms: z.nullable(number),
        cached_tokens: z.nullable(number),
        result: text,
        stages: z.optional(stages),
      }),
    ),
  }),
)

export type DecisionView = ViewOf<typeof decision, Decision>

const refusal = z.object({
  reason: text,
  limit: z.optional(text),
  detail: text,
  empty_role: z.optional(text),
  away: z.optional(text),
  may_panic: z.optional(flag),
  may_wait: z.optional(flag),
  refusals_per_s: z.optional(number),
  retry_after_ms: number,
})

export type RefusalView = ViewOf<typeof refusal, Refusal>

export const dryRun = component(
  'DryRun',
  z.object({
    decision: z.nullable(decision),
    refusals: z.array(z.object({ cluster: text, pool: text, ...refusal.shape })),
  }),
)

export type DryRunView = View<typeof dryRun>
