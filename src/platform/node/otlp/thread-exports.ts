import type { Config } from '../../../config.ts'
import type { Log } from '../../../ports/log.ts'
import { post } from '../../post.ts'
import type { ListeningGateway } from '../start-gateway.ts'
import { steadyNow } from '../steady-clock.ts'
import { type CopiedLog, LogExport } from './log-export.ts'
import { MetricsExport } from './metrics-export.ts'

interface ThreadExports {
  /** Applies a configuration. */
  adopt(config: Config): void
  /** Sends what waits, and the metrics a last time. */
  stop(): Promise<void>
}

/**
 * Starts the exports of an I/O thread: the lines of its log, and the metrics of `gateway`.
 * @param gateway null: another thread exports the metrics, which are those of all threads
 */
export function startExports(
  config: Config,
  { log, gateway }: { readonly log: Log & CopiedLog; readonly gateway: ListeningGateway['gateway'] | null },
): ThreadExports {
  const lines = new LogExport(log, config)
  const metrics =
    gateway === null ? null : new MetricsExport(gateway, { log, now: steadyNow, services: { post } }, config)
  return {
    adopt(next) {
      lines.adopt(next)
      metrics?.adopt(next)
    },
    async stop() {
      await metrics?.stop()
      await lines.end()
    },
  }
}
