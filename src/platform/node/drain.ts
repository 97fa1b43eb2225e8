/** Shutdown: no new requests, running ones may finish, and every booking is released. */
import type { Server } from 'node:http'
import type { Http1Server } from './http1/server.ts'
import { DeadlineError, withDeadline } from '../../timeout.ts'

/** Work that outlives its response: releases, logs. */
export class Background {
  readonly #running = new Set<Promise<unknown>>()
  readonly #onError: (error: unknown) => void

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError
  }

  add(work: Promise<unknown>): void {
    const settled = work.catch(this.#onError).finally(() => this.#running.delete(settled))
    this.#running.add(settled)
  }

  get size(): number {
    return this.#running.size
  }

  /** Resolves when all work is done, including work added meanwhile. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }
}

export interface DrainOptions {
  /** Time for running requests. */
  readonly drainMs: number
  /** Time for releases after that. */
  readonly settleMs: number
  /** Aborted: stop waiting. */
  readonly now: AbortSignal
}

/** `cut`: connections were still busy at the end of the time. */
export interface Drained {
  readonly cut: boolean
}

export interface Draining {
  readonly server: Server
  /** Connections that http1 reads. */
  readonly context: Http1Server
  readonly background: Background
  /** Called before connections are cut. */
  readonly cutting: () => void
}

/** Closes the listener, waits for running requests, cuts those that do not end, and waits for their releases. */
export async function drainServer(
  { server, context, background, cutting }: Draining,
  options: DrainOptions,
): Promise<Drained> {
  // Connections that are not accepted yet would be reset with the listener.
  await letIn(server)
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  context.endSoon()
  // Keep-alive connections become idle one by one; Node closes only those that are idle at the time of `close`.
  const sweep = setInterval(() => server.closeIdleConnections(), 50)
  const inTime = await within(closed, options.drainMs, options.now)
  clearInterval(sweep)
  if (!inTime) {
    cutting()
    server.closeAllConnections()
    context.destroyAll()
    await closed
  }
  await within(background.settled(), options.settleMs, null)
  return { cut: !inTime }
}

/** Turns of the event loop, each of which accepts one connection. */
const MOST_LET_IN = 1_000

/** Waits until no connection waits at the listener, or too many arrive. */
async function letIn(server: Server): Promise<void> {
  let came = true
  const onConnection = () => {
    came = true
  }
  server.on('connection', onConnection)
  for (let count = 0; came && count < MOST_LET_IN; count++) {
    came = false
    // The first ends this turn, the second the next one.
    for (let turn = 0; turn < 2; turn++) await new Promise((resolve) => setImmediate(resolve))
  }
  server.off('connection', onConnection)
}

/** Resolves with true if the work ended within the limit and before `enough` was aborted. */
async function within(work: Promise<void>, limitMs: number, enough: AbortSignal | null): Promise<boolean> {
  try {
    await withDeadline(limitMs, work, { signal: enough })
    return true
  } catch (error) {
    if (error instanceof DeadlineError) return false
    throw error
  }
}
