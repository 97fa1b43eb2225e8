/** Consumers of the record of a request: history, reports, traces and access log. */
import type { ClientSession } from '../core/contract/client-session.ts'
import type { UsedTokens } from '../core/limits/used-tokens.ts'
import { hasEnded, type OpenRecord, type RequestRecord } from '../core/reports/request-record.ts'
import type { StageTimes } from '../core/contract/stages.ts'
import type { Exchange } from '../origin/exchange.ts'
import { beginTrace, type Trace } from '../telemetry/trace-context.ts'
import { logRequest, logsRequests } from './access-log.ts'
import type { Config } from '../config.ts'
import type { KeyUsage } from '../core/limits/key-usage.ts'
import type { Ports } from '../ports.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'
import type { WorkerGroup } from '../worker-group.ts'
import type { RequestHistory } from './request-history.ts'
import type { InferenceRequest } from './inference-request.ts'

export interface LifecycleParts {
  readonly config: Pick<Config, 'log'>
  readonly ports: Pick<Ports, 'log' | 'newId' | 'random'>
  readonly telemetry: Telemetry
  readonly usage: KeyUsage
  readonly recent: RequestHistory
  readonly shared: Pick<WorkerGroup, 'ended'> | null
}

export class RequestLifecycle {
  /** null: traces are off. */
  readonly trace: Trace | null
  readonly #parts: LifecycleParts
  readonly #parsed: InferenceRequest

  /** Adds the request to the history. Its log line is written when it ends. */
  constructor(parts: LifecycleParts, parsed: InferenceRequest, record: OpenRecord) {
    const { ports, telemetry, recent } = parts
    const { incoming } = parsed
    this.#parts = parts
    this.#parsed = parsed
    this.trace = telemetry.traces
      ? beginTrace(incoming.request.headers.get('traceparent'), {
          sample: telemetry.sample,
          newId: () => ports.newId(),
          random: () => ports.random(),
        })
      : null
    recent.add({ model: parsed.model, tenant: parsed.caller.tenant, record })
    if (this.trace !== null) incoming.logFields['trace_id'] = this.trace.traceId
    incoming.logOnStreamEnd = true
  }

  /** Passes the complete record to reports, traces and log. */
  ended(exchange: Exchange, used: UsedTokens | null): void {
    const { record } = exchange
    if (!hasEnded(record)) throw new Error(`request ${record.id} has no result: fill in its record first`)
    const { incoming, caller } = this.#parsed
    const { config, ports, telemetry, usage, shared } = this.#parts
    usage.add(caller.tenant, record, used)
    shared?.ended?.({ model: this.#parsed.model, tenant: caller.tenant, record }, incoming.scope)
    telemetry.recordEnded(record, this.trace, incoming.scope)
    if (logsRequests(ports.log)) addAccessLogFields(incoming.logFields, record)
    // The error boundary logs a request without an engine.
    if (record.engine === null) return
    if (config.log.routing)
      for (const engine of [record.prefillEngine, record.engine])
        if (engine !== null) ports.log.info(productionStackLine(this.#parsed, exchange, engine))
    logRequest(incoming, ports, record.status, { reason: record.result === 'abandoned' ? 'draining' : undefined })
  }
}

/** Adds the fields of the record to those of the log line. */
function addAccessLogFields(fields: Record<string, unknown>, record: RequestRecord): void {
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

/**
 * The line that production-stack's router logs per engine, for tools that parse it. It contains an engine address: off
 * by default.
 */
function productionStackLine({ incoming, routes }: InferenceRequest, exchange: Exchange, engine: string): string {
  const { cluster, stages } = exchange.record
  const route = routes.find((one) => one.cluster.id === cluster)
  const session = route === undefined ? null : exchange.admission(route).session
  const chosenAt = (incoming.receivedAt + (stages.edge ?? 0) + (stages.tokens ?? 0) + (stages.admit ?? 0)) / 1000
  const tookS = ((stages.edge ?? 0) + (stages.tokens ?? 0) + (stages.lookup ?? 0) + (stages.admit ?? 0)) / 1000
  return (
    `Routing request ${exchange.requestId} with session id ${session ?? 'None'} to ` +
    `${route?.targets.get(engine)?.url ?? 'None'} at ${chosenAt}, process time = ${tookS.toFixed(4)}`
  )
}
