/** Posts alerts to the operator's webhook: in batches, one at a time, with a bounded number of tries. */
import type { Ports } from '../ports.ts'
import type { Alert, Alerts } from '../ports/alerts.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import { defaultTimers } from '../timers.ts'

interface WebhookTarget {
  readonly url: string
  /** Sent as a bearer token; null: none. */
  readonly secret: string | null
}

export interface WebhookParts extends Pick<Ports, 'log' | 'timers' | 'now'> {
  readonly post: NonNullable<Ports['post']>
}

/** Delay of the first try, ms, so that alerts of one fault arrive together. */
const BATCH_MS = 1_000
/** Delays between the tries of a batch, ms. */
const RETRIES_MS = [2_000, 5_000, 15_000]
const MAX_BATCH = 100
/** Maximum number of pending alerts; the oldest are dropped first. */
const MAX_PENDING = 1_000
/** Time after which a batch counts as lost, ms: on Workers, its request may have ended. */
const LOST_MS = 60_000

export class Webhook implements Alerts {
  readonly #target: WebhookTarget
  readonly #parts: WebhookParts
  #pending: Alert[] = []
  /** Start of the batch that is being sent; null: none is. */
  #sendingSince: number | null = null

  constructor(target: WebhookTarget, parts: WebhookParts) {
    this.#target = target
    this.#parts = parts
  }

  raise(alert: Alert, scope?: Pick<RequestScope, 'background'>): void {
    this.#pending.push(alert)
    if (this.#pending.length > MAX_PENDING) this.#pending.shift()
    const at = this.#parts.now()
    if (this.#sendingSince !== null && at - this.#sendingSince < LOST_MS) return
    this.#sendingSince = at
    const sent = this.#sendAll(at)
    scope?.background(sent)
  }

  /** Never rejects. */
  async #sendAll(startedAt: number): Promise<void> {
    await this.#wait(BATCH_MS)
    while (this.#pending.length > 0 && this.#sendingSince === startedAt)
      await this.#sendBatch(this.#pending.splice(0, MAX_BATCH))
    if (this.#sendingSince === startedAt) this.#sendingSince = null
  }

  async #sendBatch(alerts: readonly Alert[]): Promise<void> {
    const body = JSON.stringify({ alerts })
    for (const delayMs of [...RETRIES_MS, null]) {
      const problem = await this.#problemOf(body)
      if (problem === null) return
      const isLast = delayMs === null || problem.isPermanent
      this.#parts.log.warn('webhook_failed', { alerts: alerts.length, gives_up: isLast, ...problem.fields })
      if (isLast) return
      await this.#wait(delayMs)
    }
  }

  /** null: the batch was accepted. */
  async #problemOf(body: string): Promise<{ readonly isPermanent: boolean; readonly fields: object } | null> {
    const { url, secret } = this.#target
    const headers = {
      'content-type': 'application/json',
      ...(secret === null ? {} : { authorization: `Bearer ${secret}` }),
    }
    try {
      const status = await this.#parts.post(url, headers, body)
      return status < 300 ? null : { isPermanent: status < 500 && status !== 429, fields: { status } }
    } catch (error) {
      return { isPermanent: false, fields: { error } }
    }
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => (this.#parts.timers ?? defaultTimers).set(ms, resolve))
  }
}
