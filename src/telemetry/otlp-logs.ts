/** Log lines in OTLP/HTTP JSON. https://opentelemetry.io/docs/specs/otel/logs/data-model/ */
import { attributeValue, OTLP_SCOPE, otlpResource, type OtlpResource, toNanoseconds } from './otlp-fields.ts'

/** Numbers of the data model. */
const SEVERITY: Readonly<Record<string, number>> = { debug: 5, info: 9, warn: 13, error: 17 }

/** Encodes an ExportLogsServiceRequest from JSON lines of the log. */
export function logExportBody(lines: readonly string[], resource: OtlpResource): unknown {
  const scopeLogs = [{ scope: OTLP_SCOPE, logRecords: lines.map(recordOf) }]
  return { resourceLogs: [{ resource: otlpResource(resource), scopeLogs }] }
}

function recordOf(line: string): unknown {
  const { level, time, message, trace_id: traceId, ...fields } = JSON.parse(line) as Readonly<Record<string, unknown>>
  const at = toNanoseconds(Date.parse(String(time)))
  return {
    timeUnixNano: at,
    observedTimeUnixNano: at,
    severityNumber: SEVERITY[String(level)],
    severityText: level,
    eventName: fields['event'],
    body: { stringValue: message },
    attributes: Object.entries(fields).flatMap(([key, value]) =>
      value === null ? [] : [{ key, value: valueOf(key, value) }],
    ),
    ...(typeof traceId === 'string' && { traceId }),
  }
}

/** Objects, such as the stages of a request, are lists of names and values of the type of `key`. Lists are JSON. */
function valueOf(key: string, value: unknown): unknown {
  if (typeof value === 'string' || typeof value === 'boolean' || typeof value === 'number')
    return attributeValue(key, value)
  if (Array.isArray(value)) return { stringValue: JSON.stringify(value) }
  const values = Object.entries(value as object).flatMap(([name, one]) =>
    one === null ? [] : [{ key: name, value: valueOf(key, one) }],
  )
  return { kvlistValue: { values } }
}
