import type { ClientSession } from '../core/contract/client-session.ts'
import type { StageTimes } from '../core/contract/stages.ts'
import type { RequestRecord } from '../core/reports/request-record.ts'

/**
 * Fields of the log line of a request, in its order. A new field is a line here, set where its value is known. Never
 * prompts or keys.
 */
export type AccessLogFields = {
  /** The client's label. undefined: it sent none. */
  readonly request_id: string | undefined
  readonly id: string
  readonly method: string
  path: string | undefined
  status: number | undefined
  /** Of a failure. */
  reason: string | undefined
  /** Time to the head of the response. */
  head_ms: number | undefined
  remote: string | null | undefined
  tenant: string | undefined
  model: string | undefined
  stream: boolean | undefined
  trace_id?: string
  /** Origin of a page that CORS does not allow. */
  refused_origin?: string
  /** What became of the measurement that an edge sent. */
  edge_prompt?: string
  /** Cause of a failure of the gateway. */
  error?: Error
  cause?: unknown
  cluster?: RequestRecord['cluster']
  engine?: RequestRecord['engine']
  prefill_engine?: string
  placement?: RequestRecord['placement']
  policy?: RequestRecord['policy']
  notes?: RequestRecord['notes']
  result?: RequestRecord['result']
  failed_attempts?: RequestRecord['failedAttempts']
  continuations?: RequestRecord['continuations']
  hedge?: RequestRecord['hedge']
  session?: string
  session_source?: string
  agent?: string
  parent?: string
  prompt_tokens?: number | null
  output_tokens?: number | null
  cached_tokens?: number | null
  predicted_ttft_ms?: number | null
  duration_ms?: number | null
  stages_ms?: Readonly<Record<string, number | null>>
}

/**
 * Returns the fields that every request has. Those that are known later are undefined, which JSON leaves out: an object
 * that grows field by field costs several times as much.
 */
export const newAccessLogFields = (label: string | undefined, id: string, method: string): AccessLogFields => ({
  request_id: label,
  id,
  method,
  path: undefined,
  status: undefined,
  reason: undefined,
  head_ms: undefined,
  remote: undefined,
  tenant: undefined,
  model: undefined,
  stream: undefined,
})

/** Adds the fields of a request that an engine answered, from its record. */
export function addRecordFields(fields: AccessLogFields, record: RequestRecord): void {
  const { prefillEngine, notes, failedAttempts, continuations, hedge, session, usage, stages } = record
  fields.cluster = record.cluster
  fields.engine = record.engine
  if (prefillEngine !== null) fields.prefill_engine = prefillEngine
  fields.placement = record.placement
  fields.policy = record.policy
  if (notes.length > 0) fields.notes = notes
  fields.result = record.result
  if (failedAttempts.length > 0) fields.failed_attempts = failedAttempts
  if (continuations !== undefined) fields.continuations = continuations
  if (hedge !== undefined) fields.hedge = hedge
  if (session !== undefined) addSession(fields, session)
  if (usage !== null) {
    fields.prompt_tokens = usage.promptTokens
    fields.output_tokens = usage.completionTokens
    fields.cached_tokens = usage.cachedTokens
  }
  fields.predicted_ttft_ms = rounded(record.predictedTtftMs)
  fields.duration_ms = rounded(record.durationMs)
  const rounds: Record<string, number | null> = {}
  for (const stage in stages) rounds[stage] = rounded(stages[stage as keyof StageTimes] ?? null)
  fields.stages_ms = rounds
}

function addSession(fields: AccessLogFields, { id, source, agent, parent }: ClientSession): void {
  fields.session = id
  fields.session_source = source
  if (agent !== null) fields.agent = agent
  if (parent !== null) fields.parent = parent
}

const rounded = (ms: number | null): number | null => (ms === null ? null : Math.round(ms * 1000) / 1000)
