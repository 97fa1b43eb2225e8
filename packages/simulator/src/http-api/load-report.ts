import type { Incoming } from '../answer.ts'
import type { ServedRequest } from './served-request.ts'

/** Formats a float as Python does. */
const float = (value: number): string => (Number.isInteger(value) ? `${value}.0` : String(value))

/** ORCA load report in the headers of a non-streaming answer, if requested. */
export function loadReport({ serving }: ServedRequest, incoming: Incoming): Readonly<Record<string, string>> {
  const format = incoming.headers.get('endpoint-load-metrics-format')
  if (format === undefined) return {}
  const { model } = serving.driver
  const entries = Object.entries({ num_requests_waiting: model.waiting, kv_cache_usage_perc: model.usage })
  const text =
    format.toUpperCase() === 'JSON'
      ? `JSON {"named_metrics": {${entries.map(([key, value]) => `"${key}": ${float(value)}`).join(', ')}}}`
      : `TEXT ${entries.map(([key, value]) => `named_metrics.${key}=${float(value)}`).join(', ')}`
  return { 'endpoint-load-metrics': text }
}
