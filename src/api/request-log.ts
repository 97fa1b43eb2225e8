/** A request that is watched to its end: one record of it for the reports, the traces, the log and those who ask. */
import type { RequestRecord } from '../core/reports/combine.ts'
import type { Exchange, ExchangeEnd } from '../origin/exchange.ts'
import { beginTrace, type Trace } from '../telemetry/trace.ts'
import type { GatewayContext } from './context.ts'
import type { InferenceRequest } from './inference-exchange.ts'
import { logRequest, logsRequests } from './request-context.ts'

/** What the door remembers of one request, to answer `/v1/firstlight/requests/{id}`. */
export interface RecentRequest {
  readonly id: string
  readonly requestId: string
  readonly receivedAt: number
  readonly path: string
  readonly model: string | null
  readonly tenant: string
  status: number | null
  /** null: it has not ended. */
  record: RequestRecord | null
}

/** The last requests, in a ring: old ones are overwritten, nothing grows. Labels are not unique; the newest counts. */
export class RequestHistory {
  readonly #ring: RecentRequest[] = []
  readonly #limit: number
  #next = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  add(request: RecentRequest): void {
    this.#ring[this.#next] = request
    this.#next = (this.#next + 1) % this.#limit
  }

  /** By the gateway's id or the client's label; a scan, for people. */
  find(id: string): RecentRequest | null {
    for (let back = 1; back <= this.#ring.length; back++) {
      const request = this.#ring[(this.#next - back + this.#limit) % this.#limit]
      if (request !== undefined && (request.id === id || request.requestId === id)) return request
    }
    return null
  }
}

export class RequestLifecycle {
  /** null: nobody collects traces. */
  readonly trace: Trace | null
  readonly #context: GatewayContext
  readonly #parsed: InferenceRequest
  readonly #recent: RecentRequest

  /** From here on the request's line in the log is written when it ends. */
  constructor(context: GatewayContext, parsed: InferenceRequest) {
    const { ports, telemetry } = context
    const { incoming } = parsed
    this.#context = context
    this.#parsed = parsed
    this.trace = telemetry.traces
      ? beginTrace(incoming.request.headers.get('traceparent'), {
          sample: telemetry.sample,
          newId: () => ports.newId(),
          random: () => ports.random(),
        })
      : null
    this.#recent = {
      id: incoming.id,
      requestId: incoming.requestId,
      receivedAt: incoming.receivedAt,
      path: incoming.path,
      model: parsed.model,
      tenant: parsed.caller.tenant,
      status: null,
      record: null,
    }
    context.recent.add(this.#recent)
    if (this.trace !== null) incoming.logFields['trace_id'] = this.trace.traceId
    incoming.logOnStreamEnd = true
  }

  ended(exchange: Exchange, end: ExchangeEnd): void {
    const { incoming } = this.#parsed
    const { config, ports, telemetry } = this.#context
    const record = recordOf(exchange, end, { endedAt: ports.now(), path: incoming.path })
    this.#recent.record = record
    this.#recent.status = record.status
    telemetry.ended(record, this.trace, incoming.scope)
    if (logsRequests(ports.log)) Object.assign(incoming.logFields, accessLogFields(record))
    if (end.served === null) return
    if (config.log.routing)
      for (const engine of [record.prefillEngine, record.engine])
        if (engine !== null) ports.log.info(productionStackLine(this.#parsed, exchange, { ...record, engine }))
    logRequest(incoming, ports, record.status, { reason: end.result === 'abandoned' ? 'draining' : undefined })
  }
}

/** What nobody foresaw is answered as such, unless nobody is left to answer. */
function statusOf({ status, result }: ExchangeEnd): number {
  return status ?? (result === 'client_gone' ? 499 : 500)
}

function recordOf(
  exchange: Exchange,
  end: ExchangeEnd,
  { endedAt, path }: { readonly endedAt: number; readonly path: string },
): RequestRecord {
  const { served } = end
  const pool = exchange.routes[0]!
  const { encodeItems, sequences } = exchange.admission(pool)
  return {
    id: exchange.id,
    requestId: exchange.requestId,
    receivedAt: exchange.receivedAt,
    durationMs: Math.max(0, endedAt - exchange.receivedAt),
    path,
    model: served?.pool ?? pool.pool.model,
    cluster: served?.cluster ?? null,
    engine: served?.engine ?? null,
    prefillEngine: served === null || served.placement.kind === 'whole' ? null : served.placement.prefill,
    placement: served?.placement.kind ?? null,
    policy: served?.policy ?? null,
    notes: served?.notes ?? (end.refused ? [`refused=${end.refused}`] : []),
    stream: exchange.stream,
    status: statusOf(end),
    result: end.result,
    failedAttempts: end.failedAttempts,
    stages: end.stages,
    predictedTtftMs: served?.predictedTtftMs ?? null,
    usage: end.usage,
    sequences,
    textOnly: encodeItems === 0,
  }
}

/** What the line in the log says of the end. */
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

/** As production-stack's router writes it for each engine it sends a request to, for the tests that read it there. Names an address: off unless asked for. */
function productionStackLine(
  { incoming, routes }: InferenceRequest,
  exchange: Exchange,
  { cluster, engine, stages }: RequestRecord,
): string {
  const route = routes.find((one) => one.cluster.id === cluster)
  const session = route === undefined ? null : exchange.admission(route).session
  const chosenAt = (incoming.receivedAt + (stages.edge ?? 0) + (stages.tokens ?? 0) + (stages.admit ?? 0)) / 1000
  const tookS = ((stages.edge ?? 0) + (stages.tokens ?? 0) + (stages.lookup ?? 0) + (stages.admit ?? 0)) / 1000
  return `Routing request ${exchange.requestId} with session id ${session ?? 'None'} to ${route?.targets.get(engine!)?.url ?? 'None'} at ${chosenAt}, process time = ${tookS.toFixed(4)}`
}
