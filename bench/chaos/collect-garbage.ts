/** Garbage collection in workerd by its inspector, so that its memory can be compared. */

/** Time limit of one isolate, ms: one that is suspended does not answer. */
const LIMIT_MS = 5_000
/** Id that workerd's inspector gives the isolate of a Worker of the configuration. */
const OWN = /^core:user:/

interface Inspected {
  readonly id: string
  readonly webSocketDebuggerUrl: string
}

/**
 * Collects the garbage of all Workers of a workerd process. Never rejects.
 * @param inspector as Miniflare returns it
 */
export async function collectGarbage(inspector: string | URL): Promise<void> {
  const { host } = new URL(inspector)
  try {
    const answer = await fetch(`http://${host}/json`, { signal: AbortSignal.timeout(LIMIT_MS) })
    const isolates = (await answer.json()) as readonly Inspected[]
    await Promise.all(isolates.filter(({ id }) => OWN.test(id)).map(collectIn))
  } catch {
    // It was killed or is suspended.
  }
}

/** Resolves when it is done, at the limit, or when the connection is lost. */
function collectIn({ webSocketDebuggerUrl }: Inspected): Promise<void> {
  const socket = new WebSocket(webSocketDebuggerUrl)
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, LIMIT_MS)
  const ask = JSON.stringify({ id: 1, method: 'HeapProfiler.collectGarbage' })
  socket.addEventListener('open', () => socket.send(ask))
  for (const end of ['message', 'error', 'close']) socket.addEventListener(end, () => resolve())
  return promise.finally(() => {
    clearTimeout(timer)
    socket.close()
  })
}
