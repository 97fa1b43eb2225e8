import type { Config } from '../config.ts'
import type { Alert, Alerts } from '../ports/alerts.ts'
import type { RequestScope } from '../ports/request-scope.ts'
import { Webhook, type WebhookParts } from '../telemetry/webhook.ts'

type AlertConfig = Pick<Config, 'alerts'>

/** Alerts to the webhook of the newest configuration. Without a webhook they have no effect. */
export class ConfiguredAlerts implements Alerts {
  readonly #parts: WebhookParts
  #webhook: Webhook | null

  constructor(config: AlertConfig, parts: WebhookParts) {
    this.#parts = parts
    this.#webhook = this.#webhookOf(config)
  }

  adopt(config: AlertConfig): void {
    this.#webhook = this.#webhookOf(config)
  }

  raise(alert: Alert, scope?: Pick<RequestScope, 'background'>): void {
    this.#webhook?.raise(alert, scope)
  }

  #webhookOf({ alerts: { webhook } }: AlertConfig): Webhook | null {
    return webhook === null ? null : new Webhook(webhook, this.#parts)
  }
}
