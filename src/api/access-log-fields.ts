import type { ClientSession } from '../core/contract/client-session.ts'
import type { StageTimes } from '../core/contract/stages.ts'
import type { RequestRecord } from '../core/reports/request-record.ts'

/** Adds the fields of the record to those of the log line. */
export function addAccessLogFields(fields: Record<string, unknown>, record: RequestRecord): void {
  const { prefillEngine, notes, failedAttempts, continuations, hedge, session, usage, stages } = record
  fields['cluster'] = record.cluster
  fields['engine'] = record.engine
  if (prefillEngine !== null) fields['prefill_engine'] = prefillEngine
  fields['placement'] = record.placement
  fields['policy'] = record.policy
  if (notes.length > 0) fields['notes'] = notes
  fields['result'] = record.result
  if (failedAttempts.length > 0) fields['failed_attempts'] = failedAttempts
  if (continuations !== undefined) fields['continuations'] = continuations
  if (hedge !== undefined) fields['hedge'] = hedge
  if (session !== undefined) addSession(fields, session)
  if (usage !== null) {
    fields['prompt_tokens'] = usage.promptTokens
    fields['output_tokens'] = usage.completionTokens
    fields['cached_tokens'] = usage.cachedTokens
  }
  fields['predicted_ttft_ms'] = rounded(record.predictedTtftMs)
  fields['duration_ms'] = rounded(record.durationMs)
  const rounds: Record<string, number | null> = {}
  for (const stage in stages) rounds[stage] = rounded(stages[stage as keyof StageTimes] ?? null)
  fields['stages_ms'] = rounds
}

function addSession(fields: Record<string, unknown>, { id, source, agent, parent }: ClientSession): void {
  fields['session'] = id
  fields['session_source'] = source
  if (agent !== null) fields['agent'] = agent
  if (parent !== null) fields['parent'] = parent
}

const rounded = (ms: number | null): number | null => (ms === null ? null : Math.round(ms * 1000) / 1000)
