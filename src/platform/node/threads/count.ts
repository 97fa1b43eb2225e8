import { availableParallelism } from 'node:os'
import type { Config } from '../../../config.ts'
import { UsageError } from '../commands/command.ts'

export interface Machine {
  /** As `process.platform`. */
  readonly platform: string
  /** Node's, as `process.versions.node`. */
  readonly version: string
  readonly cores: number
}

/** This machine. */
const here = (): Machine => ({ platform: process.platform, version: process.versions.node, cores: availableParallelism() })

/**
 * How many I/O threads to start; 1: no others, this one does everything. `auto` leaves a core to the books, and is 1
 * where threads cannot share a port. Throws a UsageError where more were asked for by number.
 */
export function threadCount(wanted: Config['threads'], { platform, version, cores }: Machine = here()): number {
  const can = canSharePorts(platform, version)
  if (wanted === 'auto') return can ? Math.max(1, cores - 1) : 1
  if (wanted === 1 || can) return wanted
  throw new UsageError(
    `${wanted} workers need to listen on one port, which Node ${version} cannot do on ${platform}.`,
    'Use Linux and Node 22.12 or newer; or --workers 1, and several processes behind a proxy.',
  )
}

/** Node passes SO_REUSEPORT on from 22.12 and 23.1 on; on other systems it is not there, or deals nothing out. */
function canSharePorts(platform: string, version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const isNew = major >= 24 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12)
  return isNew && ['linux', 'freebsd', 'dragonfly', 'sunos', 'aix'].includes(platform)
}
