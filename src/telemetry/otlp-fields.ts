/**
 * Fields that spans, metrics and logs have in common in OTLP/HTTP JSON.
 * https://opentelemetry.io/docs/specs/otlp/#otlphttp
 */

export type AttributeValues = Readonly<Record<string, string | number | boolean | readonly string[] | null | undefined>>

/** Who exports. */
export interface OtlpResource {
  readonly service: string
  /** Id of this gateway among all that export. */
  readonly instance: string
}

export const OTLP_SCOPE = { name: 'firstlight' } as const

/** Appends the path of the specification to a base URL. */
export function otlpUrl(endpoint: string, signal: 'traces' | 'metrics' | 'logs'): string {
  return endpoint.endsWith(`/v1/${signal}`) ? endpoint : `${endpoint}/v1/${signal}`
}

export const otlpResource = ({ service, instance }: OtlpResource): unknown => ({
  attributes: attributes({ 'service.name': service, 'service.instance.id': instance }),
})

/** Encodes attributes without those that are null, undefined or empty lists. */
export function attributes(values: AttributeValues): unknown[] {
  const out: unknown[] = []
  for (const [key, value] of Object.entries(values)) {
    if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) continue
    out.push({ key, value: attributeValue(key, value as string | number | boolean | readonly string[]) })
  }
  return out
}

/** Times, which are always doubles: stores keep one type per name and reject another. */
const IS_DURATION = /_m?s$|time_to_first_chunk/

/** Encodes a value. Numbers with names of durations are always doubles. */
export function attributeValue(key: string, value: string | number | boolean | readonly string[]): unknown {
  if (typeof value === 'string') return { stringValue: value }
  if (typeof value === 'boolean') return { boolValue: value }
  if (typeof value === 'number')
    return Number.isInteger(value) && !IS_DURATION.test(key) ? { intValue: String(value) } : { doubleValue: value }
  return { arrayValue: { values: value.map((one) => ({ stringValue: one })) } }
}

/** Converts milliseconds to nanoseconds as a string, because a double is not exact. */
export function toNanoseconds(ms: number): string {
  const micros = Math.round(ms * 1000)
  return `${micros}000`
}
