/**
 * Restarts of one of two pickers behind the same Envoy, under load. A picker that gets SIGTERM must lose no request; one
 * that is killed breaks its running requests, which are counted apart.
 */
import type { ServedProcess } from '../proxy/processes.ts'
import { bookingsLeft } from './bookings.ts'
import { type ChatCounts, runChats } from './chats.ts'
import { freePort, type Site } from './site.ts'

/** Requests that run while pickers are killed, as a share of the others. */
const KILLED_SHARE = 0.2

interface RestartCounts extends ChatCounts {
  readonly restarts: number
}

interface RestartResult {
  readonly terminated: RestartCounts
  readonly killed: RestartCounts
  /** Bookings of both pickers at the end. */
  readonly leaked: number
  /** Pickers whose exit code after SIGTERM was not 0. */
  readonly unclean: number
}

export async function runRestarts(site: Site, requests: number): Promise<RestartResult> {
  const ports = [await freePort(), await freePort()]
  const pickers = await Promise.all(ports.map((port) => site.serve(port)))
  const envoy = await site.envoy('full_duplex', ports)
  let unclean = 0
  /** Resolves with the exit code of the picker that ended, when the new one listens. */
  const restart = async (serial: number, signal: NodeJS.Signals): Promise<number | null> => {
    const at = serial % ports.length
    const { pid, exited }: ServedProcess = pickers[at]!
    process.kill(pid, signal)
    const code = await exited
    pickers[at] = await site.serve(ports[at]!)
    return code
  }
  try {
    const terminated = await underLoad(envoy.port, requests, async (serial) => {
      if ((await restart(serial, 'SIGTERM')) !== 0) unclean++
    })
    const killed = await underLoad(envoy.port, Math.ceil(requests * KILLED_SHARE), async (serial) => {
      await restart(serial, 'SIGKILL')
    })
    let leaked = 0
    for (const picker of pickers) leaked += await bookingsLeft(picker)
    return { terminated, killed, leaked, unclean }
  } finally {
    envoy.stop()
    for (const picker of pickers) picker.stop()
  }
}

/** Restarts one picker after the other until the requests have ended. */
async function underLoad(
  port: number,
  requests: number,
  restart: (serial: number) => Promise<void>,
): Promise<RestartCounts> {
  const end = new AbortController()
  const chats = runChats({ port, requests, connections: 16, abortEvery: 50, pace: [20, 5] }).finally(() => end.abort())
  let restarts = 0
  while (!end.signal.aborted) await restart(restarts++)
  return { ...(await chats), restarts }
}
