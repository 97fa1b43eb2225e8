import type { Config } from '../../config.ts'
import type { PoolConfig } from '../../core/contract/pool-config.ts'
import type { PoolEvent } from '../../core/pool/pool-events.ts'
import { alertOf } from '../../origin/pool-alerts.ts'
import type { Webhook } from '../../telemetry/webhook.ts'
import { webhookFor } from '../webhook-for.ts'
import type { ConfigEnv, ConfigSource } from './config-source.ts'
import { workersLog } from './log.ts'
import { post } from '../post.ts'

const log = workersLog(() => 'info')

/** Alerts of a cluster object, which has neither the address nor the secret of the webhook. */
export class ObjectAlerts {
  readonly #source: ConfigSource
  #config: Config | null = null
  #webhook: Webhook | undefined = undefined

  constructor(source: ConfigSource) {
    this.#source = source
  }

  /** Never rejects. */
  async raise({ cluster, pool }: PoolConfig, events: readonly PoolEvent[], env: ConfigEnv): Promise<void> {
    const loaded = await this.#source.current(env, (work) => void work.catch(() => {}))
    if ('problem' in loaded) return
    if (this.#config !== loaded.config) {
      this.#config = loaded.config
      this.#webhook = webhookFor(loaded.config, { log, post, now: () => Date.now() })
    }
    for (const raised of events) this.#webhook?.raise(alertOf({ cluster, pool }, raised, Date.now()))
  }
}
