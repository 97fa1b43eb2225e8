/** A request that is watched to its end: one record of it for the reports, the traces, the log and those who ask. */
import type { RequestRecord } from '../core/reports/record.ts'
import type { Exchange, ExchangeEnd } from '../origin/exchange.ts'
import { beginTrace, type Trace } from '../telemetry/trace.ts'
import type { Door } from './door.ts'
import type { Understood } from './exchange.ts'
import { logRequest, writesRequests } from './incoming.ts'
import type { RecentRequest } from './recent.ts'

export class Watch {
  /** null: nobody collects traces. */
  readonly trace: Trace | null
  readonly #door: Door
  readonly #understood: Understood
  readonly #recent: RecentRequest

  /** From here on the request's line in the log is written when it ends. */
  constructor(door: Door, understood: Understood) {
    const { ports, telemetry } = door
    const { incoming } = understood
    this.#door = door
    this.#understood = understood
    this.trace = telemetry.traces ? beginTrace(incoming.request.headers.get('traceparent'), { sample: telemetry.sample, newId: () => ports.newId(), random: () => ports.random() }) : null
    this.#recent = { id: incoming.id, requestId: incoming.requestId, receivedAt: incoming.receivedAt, path: incoming.path, model: understood.model, tenant: understood.caller.tenant, status: null, record: null }
    door.recent.add(this.#recent)
    if (this.trace !== null) incoming.line['trace_id'] = this.trace.traceId
    incoming.endsLater = true
  }

  ended(exchange: Exchange, end: ExchangeEnd): void {
    const { incoming } = this.#understood
    const { config, ports, telemetry } = this.#door
    const record = recordOf(exchange, end, { endedAt: ports.now(), path: incoming.path })
    this.#recent.record = record
    this.#recent.status = record.status
    telemetry.ended(record, this.trace, incoming.scope)
    if (writesRequests(ports.log)) Object.assign(incoming.line, fieldsOf(record))
    if (end.served === null) return
    if (config.log.routing) for (const engine of [record.prefillEngine, record.engine]) if (engine !== null) ports.log.info(routingLine(this.#understood, exchange, { ...record, engine }))
    logRequest(incoming, ports, record.status, end.result === 'abandoned' ? 'draining' : undefined)
  }
}

/** What nobody foresaw is answered as such, unless nobody is left to answer. */
function statusOf({ status, result }: ExchangeEnd): number {
  return status ?? (result === 'client_gone' ? 499 : 500)
}

function recordOf(exchange: Exchange, end: ExchangeEnd, { endedAt, path }: { readonly endedAt: number; readonly path: string }): RequestRecord {
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
    notes: served?.notes ?? [],
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
function fieldsOf(record: RequestRecord): Record<string, unknown> {
  const { cluster, engine, prefillEngine, placement, policy, notes, result, failedAttempts, usage, predictedTtftMs, stages } = record
  return {
    cluster,
    engine,
    ...(prefillEngine === null ? {} : { prefill_engine: prefillEngine }),
    placement,
    policy,
    ...(notes.length === 0 ? {} : { notes }),
    result,
    ...(failedAttempts.length === 0 ? {} : { failed_attempts: failedAttempts }),
    ...(usage === null ? {} : { prompt_tokens: usage.promptTokens, output_tokens: usage.completionTokens, cached_tokens: usage.cachedTokens }),
    predicted_ttft_ms: rounded(predictedTtftMs),
    duration_ms: rounded(record.durationMs),
    stages_ms: Object.fromEntries(Object.entries(stages).map(([stage, ms]) => [stage, rounded(ms)])),
  }
}

const rounded = (ms: number | null): number | null => (ms === null ? null : Math.round(ms * 1000) / 1000)

/** As production-stack's router writes it for each engine it sends a request to, for the tests that read it there. Names an address: off unless asked for. */
function routingLine({ incoming, routes }: Understood, exchange: Exchange, { cluster, engine, stages }: RequestRecord): string {
  const route = routes.find((one) => one.cluster.id === cluster)
  const session = route === undefined ? null : exchange.admission(route).session
  const chosenAt = (incoming.receivedAt + (stages.edge ?? 0) + (stages.tokens ?? 0) + (stages.admit ?? 0)) / 1000
  const tookS = ((stages.edge ?? 0) + (stages.tokens ?? 0) + (stages.lookup ?? 0) + (stages.admit ?? 0)) / 1000
  return `Routing request ${exchange.requestId} with session id ${session ?? 'None'} to ${route?.targets.get(engine!)?.url ?? 'None'} at ${chosenAt}, process time = ${tookS.toFixed(4)}`
}
