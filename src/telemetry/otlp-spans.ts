/** Spans in OTLP/HTTP JSON. https://opentelemetry.io/docs/specs/otlp/#otlphttp */
import { protocolOf } from '../protocols/protocols.ts'
import type { RequestRecord } from '../core/reports/request-record.ts'
import {
  attributes,
  type AttributeValues,
  otlpResource,
  type OtlpResource,
  OTLP_SCOPE,
  toNanoseconds,
} from './otlp-fields.ts'
import type { Trace } from './trace-context.ts'

const KIND_INTERNAL = 1

const KIND_SERVER = 2

const KIND_CLIENT = 3

const STATUS_ERROR = 2

/** Encodes an ExportTraceServiceRequest. Ids are hex and 64-bit numbers are strings, as in the JSON mapping. */
export function traceExportBody(traced: readonly TracedRequest[], resource: OtlpResource): unknown {
  const scopeSpans = [{ scope: OTLP_SCOPE, spans: traced.flatMap(spansOf) }]
  return { resourceSpans: [{ resource: otlpResource(resource), scopeSpans }] }
}

interface SpanFields {
  readonly name: string
  readonly kind: number
  /** Milliseconds since the epoch, as `to`. */
  readonly from: number
  readonly to: number
  readonly values: AttributeValues
}

/** Returns three spans: the request, the routing decision, and the engine call. */
function spansOf(traced: TracedRequest): unknown[] {
  const { trace, record } = traced
  const { parentId, spanId, engineSpanId } = trace
  const { receivedAt, durationMs, stages, engine } = record
  const endedAt = receivedAt + durationMs
  // A sum of stages can exceed the duration by rounding.
  const decisionStartedAt = Math.min(endedAt, receivedAt + (stages.edge ?? 0) + (stages.tokens ?? 0))
  const decisionMs = (stages.lookup ?? 0) + (stages.admit ?? 0) + (stages.gateway_queue ?? 0)
  const decidedAt = Math.min(endedAt, decisionStartedAt + decisionMs)
  const request = {
    ...spanOf(traced, [spanId, parentId], {
      name: `${operationOf(record.path)} ${record.model}`,
      kind: KIND_SERVER,
      from: receivedAt,
      to: endedAt,
      values: requestValues(record),
    }),
    events:
      stages.ttft === undefined ? [] : [{ name: 'first_token', timeUnixNano: toNanoseconds(receivedAt + stages.ttft) }],
  }
  if (engine === null) return [request]
  return [
    request,
    spanOf(traced, [derivedSpanId(spanId), spanId], {
      name: 'choose engine',
      kind: KIND_INTERNAL,
      from: decisionStartedAt,
      to: decidedAt,
      values: decisionValues(record),
    }),
    spanOf(traced, [engineSpanId, spanId], {
      name: `engine ${engine}`,
      kind: KIND_CLIENT,
      from: decidedAt,
      to: endedAt,
      values: engineValues(record),
    }),
  ]
}

function spanOf({ trace, record }: TracedRequest, [id, parent]: readonly [string, string | null], span: SpanFields) {
  // A truncated stream had started with status 200.
  const isError = record.status >= 500 || record.result === 'engine_failed'
  return {
    traceId: trace.traceId,
    spanId: id,
    ...(parent === null ? {} : { parentSpanId: parent }),
    name: span.name,
    kind: span.kind,
    startTimeUnixNano: toNanoseconds(span.from),
    endTimeUnixNano: toNanoseconds(Math.max(span.from, span.to)),
    attributes: attributes(span.values),
    ...(isError && span.kind !== KIND_INTERNAL ? { status: { code: STATUS_ERROR } } : {}),
  }
}

/** Attribute names of the GenAI semantic conventions, else of vLLM's spans. */
function requestValues({
  path,
  model,
  id,
  requestId,
  status,
  usage,
  stages,
  result,
  stream,
  session,
}: RequestRecord): AttributeValues {
  return {
    'gen_ai.operation.name': operationOf(path),
    'gen_ai.provider.name': 'firstlight',
    'gen_ai.request.model': model,
    'gen_ai.request.id': requestId,
    'gen_ai.conversation.id': session?.id,
    'gen_ai.agent.id': session?.agent,
    'gen_ai.usage.input_tokens': usage?.promptTokens,
    'gen_ai.usage.output_tokens': usage?.completionTokens,
    'gen_ai.usage.cache_read.input_tokens': usage?.cachedTokens,
    'gen_ai.response.time_to_first_chunk': stages.ttft === undefined ? undefined : stages.ttft / 1000,
    'http.request.method': 'POST',
    'http.route': path,
    'http.response.status_code': status,
    'error.type': status >= 400 || result !== 'complete' ? result : undefined,
    'firstlight.request.id': id,
    'firstlight.stream': stream,
    'firstlight.session.source': session?.source,
    'firstlight.session.parent': session?.parent,
    ...Object.fromEntries(Object.entries(stages).map(([stage, ms]) => [`firstlight.stage.${stage}_ms`, ms])),
  }
}

function decisionValues({
  policy,
  placement,
  notes,
  predictedTtftMs,
  failedAttempts,
  hedge,
}: RequestRecord): AttributeValues {
  return {
    'firstlight.policy': policy,
    'firstlight.placement': placement,
    'firstlight.notes': notes,
    'firstlight.predicted_ttft_ms': predictedTtftMs,
    'firstlight.failed_attempts': failedAttempts,
    'firstlight.hedge': hedge,
  }
}

function engineValues({ cluster, engine, prefillEngine }: RequestRecord): AttributeValues {
  return { 'firstlight.cluster': cluster, 'firstlight.engine': engine, 'firstlight.prefill_engine': prefillEngine }
}

const operationOf = (path: string): string => protocolOf(path)?.operation ?? path.split('/').at(-1) ?? path

/** Derives an id from a random one. */
function derivedSpanId(spanId: string): string {
  const first = (Number.parseInt(spanId[0]!, 16) + 1) % 16
  return first.toString(16) + spanId.slice(1)
}

/** Span with its request. */
export interface TracedRequest {
  readonly trace: Trace
  readonly record: RequestRecord
}
