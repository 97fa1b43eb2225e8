/** An orderly end: nobody new comes in, those inside may finish, and everything booked is given back. */
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

  /** Resolves when nothing runs any more, also of what was added meanwhile. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running)
  }
}

export interface DrainOptions {
  /** How long open exchanges may take. */
  readonly drainMs: number
  /** How long releases may take after that. */
  readonly settleMs: number
  /** Aborted: stop waiting. */
  readonly now: AbortSignal
}

/** `cut`: connections that were still busy when time was up. */
export interface Drained {
  readonly cut: boolean
}

export interface Draining {
  readonly server: Server
  /** Connections the server does not know of. */
  readonly context: Http1Server
  readonly background: Background
  /** Told before connections are cut. */
  readonly cutting: () => void
}

/** Closes the listener, waits for what runs, cuts what does not end, then waits for its releases. */
export async function drainServer(
  { server, context, background, cutting }: Draining,
  options: DrainOptions,
): Promise<Drained> {
  // Whoever stands at the listener, and was not let in yet, would be reset with it.
  await letIn(server)
  const closed = new Promise<void>((resolve) => server.close(() => resolve()))
  context.endSoon()
  // Kept-alive connections fall idle one by one; Node closes only those that are idle at the time of `close`.
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

/** One connection a turn of the event loop is let in: many may stand there. */
const MOST_LET_IN = 1_000

/** Until nobody stands at the listener, or too many come. */
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

/** true: the work ended within the limit, and before `enough` was aborted. */
async function within(work: Promise<void>, limitMs: number, enough: AbortSignal | null): Promise<boolean> {
  try {
    await withDeadline(limitMs, work, { signal: enough })
    return true
  } catch (error) {
    if (error instanceof DeadlineError) return false
    throw error
  }
}
