/** Posts alerts to the operator's webhook: in batches, one at a time, with a bounded number of tries. */
import type { Ports } from '../ports.ts'
import type { Alert, Alerts } from '../ports/alerts.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import type { ServiceClient } from '../ports/services.ts'
import { BatchExporter } from './batch-exporter.ts'
import { ExportError, requireAccepted } from './export-error.ts'

interface WebhookTarget {
  readonly url: string
  /** Sent as a bearer token; null: none. */
  readonly secret: string | null
}

export interface WebhookParts extends Pick<Ports, 'log' | 'timers' | 'now'> {
  readonly services: Pick<ServiceClient, 'post'>
}

/** Delay of the first try, ms, so that alerts of one fault arrive together. */
const BATCH_MS = 1_000
/** Delays between the tries of a batch, ms. */
const RETRIES_MS = [2_000, 5_000, 15_000]
/** A batch with all its tries lasts less than `lostMs`. */
const LIMITS = { pending: 1_000, batch: 100, lostMs: 60_000 }

export class Webhook implements Alerts {
  readonly #batches: BatchExporter<Alert>

  constructor({ url, secret }: WebhookTarget, { log, timers, now, services }: WebhookParts) {
    const headers = {
      'content-type': 'application/json',
      ...(secret === null ? {} : { authorization: `Bearer ${secret}` }),
    }
    this.#batches = new BatchExporter({
      send: async (alerts) =>
        requireAccepted(await services.post(url, headers, JSON.stringify({ alerts })), 'the webhook'),
      failed: ({ items, isLast, error }) => {
        const problem = error instanceof ExportError ? { status: error.status } : { error }
        log.warn('webhook_failed', { alerts: items, gives_up: isLast, ...problem })
      },
      delayMs: BATCH_MS,
      retriesMs: RETRIES_MS,
      limits: LIMITS,
      now: () => now(),
      timers,
    })
  }

  raise(alert: Alert, scope?: Pick<RequestScope, 'background'>): void {
    this.#batches.add(alert, scope)
  }
}
