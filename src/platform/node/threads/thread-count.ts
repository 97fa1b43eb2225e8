/** Number of I/O threads. */
import { availableParallelism } from 'node:os'
import type { Config } from '../../../config.ts'
import { UsageError } from '../usage-error.ts'

interface Host {
  /** As `process.platform`. */
  readonly platform: string
  /** Node's, as `process.versions.node`. */
  readonly version: string
  readonly cores: number
}

/** This host. */
const thisHost = (): Host => ({
  platform: process.platform,
  version: process.versions.node,
  cores: availableParallelism(),
})

/**
 * Computes the number of I/O threads; 1: this thread does everything. `auto` leaves one core for the pool state, and
 * is 1 where threads cannot share a port. Throws a UsageError for a larger explicit number there.
 */
export function threadCount(configured: Config['workers'], { platform, version, cores }: Host = thisHost()): number {
  const canShare = canSharePorts(platform, version)
  if (configured === 'auto') return canShare ? Math.max(1, cores - 1) : 1
  if (configured === 1 || canShare) return configured
  throw new UsageError(
    `${configured} workers need to listen on one port, which Node ${version} cannot do on ${platform}.`,
    'Use Linux and Node 22.12 or newer; or --workers 1, and several processes behind a proxy.',
  )
}

/**
 * Node passes SO_REUSEPORT on from 22.12 and 23.1. On other systems it does not exist, or does not distribute
 * connections.
 */
function canSharePorts(platform: string, version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const isNew = major >= 24 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12)
  return isNew && ['linux', 'freebsd', 'dragonfly', 'sunos', 'aix'].includes(platform)
}
