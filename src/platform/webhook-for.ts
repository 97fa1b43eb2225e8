import type { Config } from '../config.ts'
import { Webhook, type WebhookParts } from '../telemetry/webhook.ts'

/** Returns the sender of alerts; undefined: none is configured. */
export function webhookFor({ alerts: { webhook } }: Config, parts: WebhookParts): Webhook | undefined {
  return webhook === null ? undefined : new Webhook(webhook, parts)
}
