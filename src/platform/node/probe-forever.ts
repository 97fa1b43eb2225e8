import type { Gateway } from '../../gateway.ts'
import type { Log } from '../../ports/log.ts'

/** Interval at which due health checks are started. */
const PROBE_TICK_MS = 50

/** Starts due health checks. The gateway checks no engine twice at once, so an engine that hangs delays no other. */
export function probeForever(gateway: Pick<Gateway, 'probe'>, log: Log): () => void {
  const round = () => {
    gateway.probe().catch((error: unknown) => log.warn('probe_failed', { error }))
  }
  round()
  const timer = setInterval(round, PROBE_TICK_MS)
  timer.unref()
  return () => clearInterval(timer)
}
