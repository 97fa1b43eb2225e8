import type { ServiceClient } from '../ports/services.ts'
import { requireAccepted } from './export-error.ts'
import { otlpUrl } from './otlp-fields.ts'

interface Collector {
  /** Base URL, or that of the signal. */
  readonly endpoint: string
  readonly headers: Readonly<Record<string, string>>
}

/** Sends an export request to a collector. Rejects with an ExportError if it is not accepted. */
export async function sendOtlp(
  post: ServiceClient['post'],
  { endpoint, headers }: Collector,
  signal: Parameters<typeof otlpUrl>[1],
  body: unknown,
): Promise<void> {
  const all = { ...headers, 'content-type': 'application/json' }
  requireAccepted(await post(otlpUrl(endpoint, signal), all, JSON.stringify(body)), 'the collector')
}
