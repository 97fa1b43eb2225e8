/** A request that is watched to its end: one record of it for the reports, the traces, the log and those who ask. */
import type { RequestRecord } from '../core/reports/record.ts'
import type { Exchange, ExchangeEnd } from '../origin/exchange.ts'
import { beginTrace, withTrace, type Trace } from '../telemetry/trace.ts'
import type { Door } from './door.ts'
import type { Understood } from './exchange.ts'
import { logRequest } from './incoming.ts'
import type { RecentRequest } from './recent.ts'

/** The exchange to forward in its place. From here its line in the log is written when it ends. */
export function watched(door: Door, understood: Understood, exchange: Exchange): Exchange {
  const { config, ports, telemetry } = door
  const { incoming } = understood
  const trace = telemetry.traces ? beginTrace(incoming.request.headers.get('traceparent'), { sample: telemetry.sample, newId: () => ports.newId(), random: () => ports.random() }) : null
  const recent: RecentRequest = { id: incoming.id, requestId: incoming.requestId, receivedAt: incoming.receivedAt, path: incoming.path, model: understood.model, tenant: understood.caller.tenant, status: null, record: null }
  door.recent.add(recent)
  incoming.line['trace_id'] = trace?.traceId
  incoming.endsLater = true
  return {
    ...exchange,
    headers: trace === null ? exchange.headers : withTrace(exchange.headers, trace),
    lastComment: config.ttft.comment,
    onEnd: (end) => ended(door, { understood, exchange, trace, recent }, end),
  }
}

interface Watch {
  readonly understood: Understood
  readonly exchange: Exchange
  readonly trace: Trace | null
  readonly recent: RecentRequest
}

function ended(door: Door, { understood, exchange, trace, recent }: Watch, end: ExchangeEnd): void {
  const { incoming } = understood
  const record = recordOf(door, exchange, end)
  recent.record = record
  recent.status = record.status
  door.telemetry.ended(record, trace, incoming.scope)
  Object.assign(incoming.line, fieldsOf(record))
  if (end.served === null) return
  if (door.config.log.routing) door.ports.log.info(routingLine(understood, exchange, record))
  logRequest(incoming, door.ports, record.status)
}

/** 499 and 503 stand for answers that were never sent: the status of the failure itself is in the log. */
function statusOf({ status, result }: ExchangeEnd): number {
  return status ?? (result === 'client_gone' ? 499 : 503)
}

function recordOf({ ports }: Door, exchange: Exchange, end: ExchangeEnd): RequestRecord {
  const { served } = end
  const pool = exchange.routes[0]!
  return {
    id: exchange.id,
    requestId: exchange.requestId,
    receivedAt: exchange.receivedAt,
    durationMs: Math.max(0, ports.now() - exchange.receivedAt),
    path: exchange.path.split('?', 1)[0]!,
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
    textOnly: exchange.admission(pool).encodeItems === 0,
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

/** As production-stack's router writes it, for the tests that read it there. Names an address: off unless asked for. */
function routingLine({ incoming, routes }: Understood, exchange: Exchange, { cluster, engine, stages }: RequestRecord): string {
  const route = routes.find((one) => one.cluster.id === cluster)
  const session = route === undefined ? null : exchange.admission(route).session
  const chosenAt = (incoming.receivedAt + (stages.edge ?? 0) + (stages.tokens ?? 0) + (stages.admit ?? 0)) / 1000
  const tookS = ((stages.edge ?? 0) + (stages.tokens ?? 0) + (stages.lookup ?? 0) + (stages.admit ?? 0)) / 1000
  return `Routing request ${exchange.requestId} with session id ${session ?? 'None'} to ${route?.targets.get(engine!)?.url ?? 'None'} at ${chosenAt}, process time = ${tookS.toFixed(4)}`
}
