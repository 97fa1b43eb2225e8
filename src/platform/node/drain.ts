/** Shutdown: no new requests, running ones may finish, and every booking is released. */
import type { Server } from 'node:http'
import type { Server as TlsServer } from 'node:https'
import { within } from './within.ts'
import type { Background } from './background.ts'
import type { Http1Server } from './http1/server.ts'

interface DrainOptions {
  /** Time for running requests. */
  readonly drainMs: number
  /** Time for releases after that. */
  readonly settleMs: number
  /** Aborted: stop waiting. */
  readonly now: AbortSignal
}

export interface DrainResult {
  /** Connections were still busy at the end of the time, and were closed. */
  readonly timedOut: boolean
}

interface DrainParts {
  readonly server: Server | TlsServer
  /** Connections that http1 reads. */
  readonly http1: Http1Server
  readonly background: Background
  /** Called before busy connections are closed. */
  readonly beforeTruncation: () => void
}

/** Closes the listener, waits for running requests, closes busy connections, and waits for the releases. */
export async function drainServer(
  { server, http1, background, beforeTruncation }: DrainParts,
  options: DrainOptions,
): Promise<DrainResult> {
  // Connections that are not accepted yet would be reset with the listener.
  await acceptPending(server)
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  http1.endSoon()
  // Keep-alive connections become idle one by one; Node closes only those that are idle at the time of `close`.
  const sweep = setInterval(() => server.closeIdleConnections(), 50)
  const inTime = await within(closed, options.drainMs, options.now)
  clearInterval(sweep)
  if (!inTime) {
    beforeTruncation()
    server.closeAllConnections()
    http1.destroyAll()
    await closed
  }
  await within(background.settled(), options.settleMs, null)
  return { timedOut: !inTime }
}

/** Turns of the event loop, each of which accepts one connection. */
const MAX_ACCEPT_TURNS = 1_000

/** Waits until no connection waits at the listener, or too many arrive. */
async function acceptPending(server: Server | TlsServer): Promise<void> {
  let hasNew = true
  const onConnection = () => {
    hasNew = true
  }
  server.on('connection', onConnection)
  for (let count = 0; hasNew && count < MAX_ACCEPT_TURNS; count++) {
    hasNew = false
    // The first ends this turn, the second the next one.
    for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve))
  }
  server.off('connection', onConnection)
}
