/** Priority of the gateway and of the client over engines that take all cores: their delays are no engine's time. */
import { getPriority, setPriority } from 'node:os'

const PREFERRED = -10

export interface Preference {
  /** For a result. */
  readonly how: string
  end(): void
}

/** Raises the priority of these processes, which needs the right to do so. */
export function prefer(pids: readonly (number | undefined)[]): Preference {
  const changed: (readonly [number, number])[] = []
  const end = (): void => {
    for (const [pid, before] of changed.splice(0)) if (isRunning(pid)) setPriority(pid, before)
  }
  try {
    for (const pid of pids.filter((one) => one !== undefined)) {
      const before = getPriority(pid)
      setPriority(pid, PREFERRED)
      changed.push([pid, before])
    }
  } catch {
    end()
    return { how: 'gateway and client without priority', end }
  }
  return { how: 'gateway and client with priority', end }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
