/** Consumers of the record of a request: history, reports, traces and access log. */
import type { UsedTokens } from '../core/limits/used-tokens.ts'
import { hasEnded, type OpenRecord, type RequestRecord } from '../core/reports/request-record.ts'
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
    if (logsRequests(ports.log)) Object.assign(incoming.logFields, accessLogFields(record))
    // The error boundary logs a request without an engine.
    if (record.engine === null) return
    if (config.log.routing)
      for (const engine of [record.prefillEngine, record.engine])
        if (engine !== null) ports.log.info(productionStackLine(this.#parsed, exchange, engine))
    logRequest(incoming, ports, record.status, { reason: record.result === 'abandoned' ? 'draining' : undefined })
  }
}

/** Fields of the record in the access log. */
function accessLogFields(record: RequestRecord): Record<string, unknown> {
  const {
    cluster,
    engine,
    prefillEngine,
    placement,
    policy,
    notes,
    result,
    failedAttempts,
    continuations,
    hedge,
    usage,
    predictedTtftMs,
    stages,
  } = record
  return {
    cluster,
    engine,
    ...(prefillEngine === null ? {} : { prefill_engine: prefillEngine }),
    placement,
    policy,
    ...(notes.length === 0 ? {} : { notes }),
    result,
    ...(failedAttempts.length === 0 ? {} : { failed_attempts: failedAttempts }),
    ...(continuations === undefined ? {} : { continuations }),
    ...(hedge === undefined ? {} : { hedge }),
    ...(usage === null
      ? {}
      : {
          prompt_tokens: usage.promptTokens,
          output_tokens: usage.completionTokens,
          cached_tokens: usage.cachedTokens,
        }),
    predicted_ttft_ms: rounded(predictedTtftMs),
    duration_ms: rounded(record.durationMs),
    stages_ms: Object.fromEntries(Object.entries(stages).map(([stage, ms]) => [stage, rounded(ms)])),
  }
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
