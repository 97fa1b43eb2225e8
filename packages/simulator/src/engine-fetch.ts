import type { Answer, BrokenConnection, Incoming, Sink } from './answer.ts'
import type { SimulatedEngine } from './engine.ts'

/**
 * Serves the engine as a `fetch` function, for tests in workerd and for a gateway in the same process. Where a socket
 * would be reset, the call rejects with a TypeError or the body errors.
 */
export async function handleRequest(engine: SimulatedEngine, request: Request): Promise<Response> {
  const aborted = new AbortController()
  if (request.signal.aborted) aborted.abort(request.signal.reason)
  request.signal.addEventListener('abort', () => aborted.abort(request.signal.reason), { once: true })
  const url = new URL(request.url)
  const incoming: Incoming = {
    method: request.method,
    path: url.pathname,
    query: url.searchParams,
    headers: new Map(request.headers),
    body: await request.text(),
    signal: aborted.signal,
  }
  const answer = await orAborted(engine.handle(incoming), request.signal)
  if ('broken' in answer)
    throw new TypeError(`fetch failed: the simulated engine reset the connection (${answer.broken})`)
  const body = typeof answer.body === 'string' ? answer.body : readable(answer, aborted.signal)
  return new Response(body, { status: answer.status, headers: answer.headers })
}

/** `fetch` rejects with the signal's reason immediately when it aborts. */
function orAborted(
  answer: Promise<Answer | BrokenConnection>,
  signal: AbortSignal,
): Promise<Answer | BrokenConnection> {
  return new Promise((resolve, reject) => {
    const leave = (): void => reject(signal.reason)
    if (signal.aborted) leave()
    signal.addEventListener('abort', leave, { once: true })
    answer.then(resolve, reject)
  })
}

function readable(answer: Answer, signal: AbortSignal): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  let stop: (() => void) | null = null
  return new ReadableStream<Uint8Array>({
    start(controller) {
      let open = true
      const close = (how: () => void): void => {
        if (!open) return
        open = false
        how()
      }
      const sink: Sink = {
        write: (text) => {
          if (open) controller.enqueue(encoder.encode(text))
        },
        end: () => close(() => controller.close()),
        fail: () =>
          close(() => controller.error(new TypeError('terminated: the simulated engine reset the connection'))),
      }
      stop = (answer.body as (sink: Sink) => () => void)(sink)
      const leave = (): void => {
        close(() => controller.error(signal.reason))
        stop?.()
      }
      if (signal.aborted) leave()
      signal.addEventListener('abort', leave, { once: true })
    },
    cancel() {
      stop?.()
    },
  })
}
