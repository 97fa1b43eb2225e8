/** One request with everything that is known of it. */
import * as z from 'zod/mini'
import type { RequestRecord } from '../../core/reports/request-record.ts'
import { decision } from './decision.ts'
import { anyObject, component, described, flag, milliseconds, number, stages, text, texts } from './fields.ts'
import type { View, ViewOf } from './view.ts'

const summary = z.object({
  id: text,
  request_id: text,
  received_at: milliseconds,
  path: text,
  model: text,
  tenant: text,
  status: described('null: the request runs.', z.nullable(number)),
})

export type RequestSummaryView = View<typeof summary>

const record = z.object({
  id: text,
  request_id: text,
  received_at: milliseconds,
  duration_ms: number,
  path: text,
  model: text,
  cluster: z.nullable(text),
  engine: z.nullable(text),
  prefill_engine: z.nullable(text),
  placement: z.nullable(text),
  policy: z.nullable(text),
  notes: texts,
  session: z.optional(z.object({ id: text, source: text, agent: z.nullable(text), parent: z.nullable(text) })),
  stream: flag,
  status: number,
  result: text,
  failed_attempts: texts,
  stages,
  predicted_ttft_ms: z.nullable(number),
  usage: described(
    'Tokens that the engine reported.',
    z.nullable(z.object({ prompt_tokens: number, completion_tokens: number, cached_tokens: z.nullable(number) })),
  ),
  used: z.optional(
    described(
      'Tokens that the request used, whether the engine reported them or not.',
      z.nullable(z.object({ prompt_tokens: number, output_tokens: number, is_estimated: z.optional(flag) })),
    ),
  ),
  continuations: z.optional(texts),
  hedge: z.optional(text),
  sequences: z.optional(number),
  text_only: flag,
})

export type RequestRecordView = ViewOf<typeof record, RequestRecord>

const ttftReport = z.object({
  request_id: text,
  by_role: z.record(z.string(), z.record(z.string(), number)),
  combined: z.record(z.string(), z.nullable(number)),
})

export type TtftReportView = View<typeof ttftReport>

export const request = component(
  'Request',
  z.object({
    request: described('null: it is not among the last requests of this gateway.', z.nullable(summary)),
    stages_ms: z.nullable(stages),
    record: described('null: the request runs, or has no record.', z.nullable(record)),
    ttft_report: described('null: there is none (docs/ttft-reports.md).', z.nullable(ttftReport)),
    decision: z.nullable(decision),
    region: z.optional(described('Answer of the region that has the request, with its cluster here.', anyObject)),
  }),
)

export type RequestView = View<typeof request>
