/** Completed requests: records go to reports and rollups, spans to the collector. */
import type { RequestRecord } from '../core/reports/combine.ts'
import { EndedHistory } from '../core/reports/fleet-history.ts'
import type { TracesConfig } from '../config.ts'
import type { FailureReason } from '../failure.ts'
import type { Ports, RequestScope } from '../ports.ts'
import { BatchExporter, PermanentExportError, type Trace } from './batch-exporter.ts'
/* Spans in OTLP/HTTP JSON. https://opentelemetry.io/docs/specs/otlp/#otlphttp */

const KIND_INTERNAL = 1
const KIND_SERVER = 2
const KIND_CLIENT = 3
const STATUS_ERROR = 2

/** Appends the path of the specification to a base URL. */
export function tracesUrl(endpoint: string): string {
  return endpoint.endsWith('/v1/traces') ? endpoint : `${endpoint}/v1/traces`
}

/** Encodes an ExportTraceServiceRequest. Ids are hex and 64-bit numbers are strings, as in the JSON mapping. */
export function exportBody(
  traced: readonly Traced[],
  { service, instance }: { readonly service: string; readonly instance: string },
): unknown {
  const resource = { attributes: attributes({ 'service.name': service, 'service.instance.id': instance }) }
  return {
    resourceSpans: [{ resource, scopeSpans: [{ scope: { name: 'firstlight' }, spans: traced.flatMap(spansOf) }] }],
  }
}

type Values = Readonly<Record<string, string | number | boolean | readonly string[] | null | undefined>>

interface SpanFields {
  readonly name: string
  readonly kind: number
  /** Milliseconds since the epoch, as `to`. */
  readonly from: number
  readonly to: number
  readonly values: Values
}

/** Returns three spans: the request, the routing decision, and the engine call. */
function spansOf(traced: Traced): unknown[] {
  const { trace, record } = traced
  const { parentId, spanId, engineSpanId } = trace
  const { receivedAt, durationMs, stages, engine } = record
  const endedAt = receivedAt + durationMs
  // A sum of stages can exceed the duration by rounding.
  const askedAt = Math.min(endedAt, receivedAt + (stages.edge ?? 0) + (stages.tokens ?? 0))
  const choiceMs = (stages.lookup ?? 0) + (stages.admit ?? 0) + (stages.gateway_queue ?? 0)
  const chosenAt = Math.min(endedAt, askedAt + choiceMs)
  const request = {
    ...spanOf(traced, [spanId, parentId], {
      name: `${operationOf(record.path)} ${record.model}`,
      kind: KIND_SERVER,
      from: receivedAt,
      to: endedAt,
      values: requestValues(record),
    }),
    events: stages.ttft === undefined ? [] : [{ name: 'first_token', timeUnixNano: nanos(receivedAt + stages.ttft) }],
  }
  if (engine === null) return [request]
  return [
    request,
    spanOf(traced, [derived(spanId), spanId], {
      name: 'choose engine',
      kind: KIND_INTERNAL,
      from: askedAt,
      to: chosenAt,
      values: choiceValues(record),
    }),
    spanOf(traced, [engineSpanId, spanId], {
      name: `engine ${engine}`,
      kind: KIND_CLIENT,
      from: chosenAt,
      to: endedAt,
      values: engineValues(record),
    }),
  ]
}

function spanOf({ trace, record }: Traced, [id, parent]: readonly [string, string | null], of: SpanFields) {
  // A cut stream had started with status 200.
  const isError = record.status >= 500 || record.result === 'engine_failed'
  return {
    traceId: trace.traceId,
    spanId: id,
    ...(parent === null ? {} : { parentSpanId: parent }),
    name: of.name,
    kind: of.kind,
    startTimeUnixNano: nanos(of.from),
    endTimeUnixNano: nanos(Math.max(of.from, of.to)),
    attributes: attributes(of.values),
    ...(isError && of.kind !== KIND_INTERNAL ? { status: { code: STATUS_ERROR } } : {}),
  }
}

/** Attribute names of the GenAI semantic conventions, else of vLLM's spans. */
function requestValues({ path, model, id, requestId, status, usage, stages, result, stream }: RequestRecord): Values {
  return {
    'gen_ai.operation.name': operationOf(path),
    'gen_ai.provider.name': 'vllm',
    'gen_ai.request.model': model,
    'gen_ai.request.id': requestId,
    'gen_ai.usage.input_tokens': usage?.promptTokens,
    'gen_ai.usage.output_tokens': usage?.completionTokens,
    'gen_ai.usage.cache_read.input_tokens': usage?.cachedTokens,
    'gen_ai.latency.time_to_first_token': stages.ttft === undefined ? undefined : stages.ttft / 1000,
    'http.request.method': 'POST',
    'http.route': path,
    'http.response.status_code': status,
    'error.type': status >= 400 || result !== 'complete' ? result : undefined,
    'firstlight.request.id': id,
    'firstlight.stream': stream,
    ...Object.fromEntries(Object.entries(stages).map(([stage, ms]) => [`firstlight.stage.${stage}_ms`, ms])),
  }
}

function choiceValues({ policy, placement, notes, predictedTtftMs, failedAttempts, hedge }: RequestRecord): Values {
  return {
    'firstlight.policy': policy,
    'firstlight.placement': placement,
    'firstlight.notes': notes,
    'firstlight.predicted_ttft_ms': predictedTtftMs,
    'firstlight.failed_attempts': failedAttempts,
    'firstlight.hedge': hedge,
  }
}

function engineValues({ cluster, engine, prefillEngine }: RequestRecord): Values {
  return { 'firstlight.cluster': cluster, 'firstlight.engine': engine, 'firstlight.prefill_engine': prefillEngine }
}

function operationOf(path: string): string {
  if (path.startsWith('/v1/chat') || path.startsWith('/v1/messages') || path.startsWith('/v1/responses')) return 'chat'
  return path.startsWith('/v1/completions') ? 'text_completion' : (path.split('/').at(-1) ?? path)
}

function attributes(values: Values): unknown[] {
  const out: unknown[] = []
  for (const [key, value] of Object.entries(values)) {
    if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) continue
    out.push({ key, value: valueOf(key, value as string | number | boolean | readonly string[]) })
  }
  return out
}

/** Times are always doubles: stores keep one type per name and reject another. */
function valueOf(key: string, value: string | number | boolean | readonly string[]): unknown {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  if (typeof value === 'number')
    return Number.isInteger(value) && !/_ms$|latency/.test(key) ? { intValue: String(value) } : { doubleValue: value }
  return { arrayValue: { values: value.map((one) => ({ stringValue: one })) } }
}

/** Converts milliseconds to nanoseconds as a string, because a double is not exact. */
function nanos(ms: number): string {
  const micros = Math.round(ms * 1000)
  return `${micros}000`
}

/** Derives an id from a random one. */
function derived(spanId: string): string {
  const first = (Number.parseInt(spanId[0]!, 16) + 1) % 16
  return first.toString(16) + spanId.slice(1)
}

/** Span with its request. */
export interface Traced {
  readonly trace: Trace
  readonly record: RequestRecord
}

const SPANS_DELAY_MS = 2_000

/** Results that a client sees as a failure. */
const FAILED: ReadonlySet<RequestRecord['result']> = new Set(['engine_failed', 'abandoned', 'lapsed'])

export class Telemetry {
  readonly #records: BatchExporter<RequestRecord> | null
  readonly #traced: BatchExporter<Traced> | null
  #exported: TracesConfig
  /** Requests rejected before routing, by reason. */
  readonly refusals: Partial<Record<FailureReason, number>> = {}
  readonly endedHistory = new EndedHistory()
  readonly #now: () => number

  /** @param source id of this gateway among all that write to the same store */
  constructor(ports: Ports, traces: TracesConfig, source: string) {
    const { ttft, now, log, post } = ports
    const epoch = now()
    this.#now = () => now()
    this.#records =
      ttft === undefined
        ? null
        : new BatchExporter({
            name: 'reports',
            delayMs: ttft.batchMs,
            now,
            log,
            send: (records, seq) => ttft.flush({ source, epoch, seq, records }),
          })
    this.#exported = traces
    this.#traced =
      post === undefined
        ? null
        : new BatchExporter({
            name: 'traces',
            delayMs: SPANS_DELAY_MS,
            now,
            log,
            send: (traced) => send(post, this.#exported, { traced, source }),
          })
  }

  /** Applies a configuration; pending items use it, too. */
  export(traces: TracesConfig): void {
    this.#exported = traces
  }

  /** Whether traces are exported. */
  get traces(): boolean {
    return this.#traced !== null && this.#exported.endpoint !== null
  }

  get sample(): number {
    return this.#exported.sample
  }

  ended(record: RequestRecord, trace: Trace | null, scope: Pick<RequestScope, 'background'>): void {
    this.#records?.add(record, scope)
    const isRejected = record.engine === null && record.result !== 'client_gone'
    const isFailed = FAILED.has(record.result) || record.status >= 500
    this.endedHistory.add(isRejected ? 'rejected' : isFailed ? 'failed' : 'served', this.#now())
    if (trace?.sampled) this.#traced?.add({ trace, record }, scope)
  }

  /** Counts a request that was rejected before it was tracked. */
  readonly refused = (reason: FailureReason): void => {
    this.refusals[reason] = (this.refusals[reason] ?? 0) + 1
    this.endedHistory.add('rejected', this.#now())
  }

  /** Flushes, so that the next read includes all completed requests. */
  async flush(): Promise<void> {
    await this.#records?.flush()
  }

  get droppedRecords(): number {
    return this.#records?.dropped ?? 0
  }

  get droppedSpans(): number {
    return this.#traced?.dropped ?? 0
  }
}

async function send(
  post: NonNullable<Ports['post']>,
  { endpoint, headers, service }: TracesConfig,
  { traced, source }: { readonly traced: readonly Traced[]; readonly source: string },
): Promise<void> {
  if (endpoint === null) throw new PermanentExportError('traces are off')
  const status = await post(
    tracesUrl(endpoint),
    { ...headers, 'content-type': 'application/json' },
    JSON.stringify(exportBody(traced, { service, instance: source })),
  )
  if (status < 300) return
  // All except 429 and 5xx are permanent (OTLP/HTTP, "Failures").
  throw new (status >= 500 || status === 429 ? Error : PermanentExportError)(`the collector answered ${status}`)
}
