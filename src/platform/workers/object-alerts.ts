import type { Config } from '../../config.ts'
import type { PoolConfig } from '../../core/contract/pool-config.ts'
import type { PoolEvent } from '../../core/pool/pool-events.ts'
import { alertOf } from '../../origin/pool-alerts.ts'
import { defaultTimers } from '../../timers.ts'
import { ConfiguredAlerts } from '../configured-alerts.ts'
import type { ConfigEnv, ConfigSource } from './config-source.ts'
import { workersLog } from './log.ts'
import { post } from '../post.ts'

const PARTS = { log: workersLog(() => 'info'), timers: defaultTimers, now: () => Date.now(), services: { post } }

/** Alerts of a cluster object, which has neither the address nor the secret of the webhook. */
export class ObjectAlerts {
  readonly #source: ConfigSource
  #config: Config | null = null
  #alerts: ConfiguredAlerts | null = null

  constructor(source: ConfigSource) {
    this.#source = source
  }

  /** Never rejects. */
  async raise({ cluster, pool }: PoolConfig, events: readonly PoolEvent[], env: ConfigEnv): Promise<void> {
    const loaded = await this.#source.current(env, (work) => void work.catch(() => {}))
    if ('problem' in loaded) return
    if (this.#config !== loaded.config) {
      this.#config = loaded.config
      this.#alerts = new ConfiguredAlerts(loaded.config, PARTS)
    }
    for (const raised of events) this.#alerts?.raise(alertOf({ cluster, pool }, raised, Date.now()))
  }
}
