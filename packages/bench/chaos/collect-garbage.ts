/** Garbage collection in workerd by its inspector, so that its memory can be compared. */
import { setTimeout as sleep } from 'node:timers/promises'
import { MODEL } from './document.ts'

/** Time limit of one isolate, ms: one that is suspended does not answer. */
const LIMIT_MS = 5_000
/** Ids of the isolates of the configured Workers, and of those of Miniflare that pass their requests to engines. */
const COLLECTED = /^(?:core:user|outbound):/
/** What a first collection frees may have kept objects outside of the heap, which a second one frees. */
const ROUNDS = 2
const WAKE_MS = 50

interface InspectorTarget {
  readonly id: string
  readonly webSocketDebuggerUrl: string
}

/**
 * Collects the garbage of all Workers of a workerd process. Never rejects. An isolate collects when it next runs, so
 * that of an idle one stays.
 * @param inspector as Miniflare returns it
 * @param wake sends a request that every Worker fetches something for; repeated until the garbage is collected
 */
export async function collectGarbage(inspector: string | URL, wake: () => Promise<unknown>): Promise<void> {
  const { host } = new URL(inspector)
  try {
    const answer = await fetch(`http://${host}/json`, { signal: AbortSignal.timeout(LIMIT_MS) })
    const isolates = (await answer.json()) as readonly InspectorTarget[]
    const collected = isolates.filter(({ id }) => COLLECTED.test(id))
    for (let round = 0; round < ROUNDS; round++) {
      const waking = new AbortController()
      const done = Promise.all(collected.map(collectIn)).finally(() => waking.abort())
      while (!waking.signal.aborted) {
        await wake().catch(() => undefined)
        await sleep(WAKE_MS)
      }
      await done
    }
  } catch {
    // It was killed or is suspended.
  }
}

/** Resolves when it is done, at the limit, or when the connection is lost. */
function collectIn({ webSocketDebuggerUrl }: InspectorTarget): Promise<void> {
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

/** One token of an engine by the gateway at this URL. */
export async function oneToken(url: string, key: string): Promise<void> {
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: MODEL, prompt: 'a', max_tokens: 1 }),
    signal: AbortSignal.timeout(LIMIT_MS),
  })
  await response.arrayBuffer()
}
