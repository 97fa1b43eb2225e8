/** Engines over fetch: bytes pass natively unless somebody must read them. */
import { headersForTarget, headersInit, headersOfAnswer } from '../../origin/headers.ts'
import { OriginError, type EngineTarget, type Origin, type OriginAnswer, type OriginRequest } from '../../ports.ts'
import { UpstreamGuard } from './upstream-guard.ts'
import { FetchedAnswer, ReaderSource } from './fetch-answer.ts'

export interface WorkersOriginOptions {
  /** Epoch milliseconds; on Workers it moves only with I/O. */
  readonly now?: () => number
  /** Bindings engines can be fetched through, by name (VPC, mTLS, another Worker). */
  readonly bindings?: Readonly<Record<string, unknown>>
}

type Fetch = (url: string, init: RequestInit) => Promise<Response>

export function workersOrigin(options: WorkersOriginOptions = {}): Origin {
  const now = options.now ?? Date.now
  return {
    async send(request: OriginRequest): Promise<OriginAnswer> {
      if (request.signal.aborted) throw request.signal.reason
      const ask = fetcherOf(request.target, options.bindings ?? {})
      const call = { request, ask, now, startedAt: now() }
      try {
        return await send(call)
      } catch (error) {
        // An idle connection that the engine closed as it was taken: no work was begun, so it may be tried once more.
        const stale = error instanceof OriginError && error.failure === 'reset' && now() - call.startedAt <= STALE_MS
        if (stale && !request.signal.aborted) return send(call)
        throw error
      }
    },
  }
}

/** A connection that breaks this soon was most likely a stale one. */
const STALE_MS = 500

interface Call {
  readonly request: OriginRequest
  readonly ask: Fetch
  readonly now: () => number
  readonly startedAt: number
}

/** Fails as `connect` when the config names a binding the Worker does not have: the engine cannot be reached. */
function fetcherOf(target: EngineTarget, bindings: Readonly<Record<string, unknown>>): Fetch {
  if (target.binding === null) return (url, init) => fetch(url, init)
  const binding = bindings[target.binding] as { fetch?: unknown } | undefined
  if (typeof binding?.fetch !== 'function') {
    throw new OriginError(
      'connect',
      `engine ${target.id} asks for the binding ${target.binding}, which this Worker does not have`,
    )
  }
  const fetcher = binding as { fetch: Fetch }
  return (url, init) => fetcher.fetch(url, init)
}

async function send({ request, ask, now }: Call): Promise<OriginAnswer> {
  const watch = new UpstreamGuard(request)
  const { controller } = watch
  try {
    const response = await ask(request.target.url + request.path, {
      method: request.method,
      headers: headersInit(headersForTarget(request.headers, request.target)),
      body: bodyOf(request),
      // An engine that redirects would move the client's prompt to an address nobody configured.
      redirect: 'manual',
      signal: controller.signal,
    })
    const raw: string[] = []
    response.headers.forEach((value, name) => raw.push(name, value))
    const headers = headersOfAnswer(raw)
    const source = new ReaderSource(response.body, controller)
    return new FetchedAnswer({ status: response.status, headers }, source, { now, watch })
  } catch (error) {
    watch.over()
    // Our own reasons, not what fetch made of them.
    if (controller.signal.aborted) throw controller.signal.reason
    throw originErrorOf(error, request.target)
  }
}

function bodyOf({ method, body }: OriginRequest): BodyInit | null {
  if (body === null) return method === 'POST' ? new Uint8Array(0) : null
  // One piece has a length; a stream of pieces would be sent chunked.
  return body.length === 1 ? (body[0] as Uint8Array<ArrayBuffer>) : new Blob(body as Uint8Array<ArrayBuffer>[])
}

/**
 * workerd has one error for nearly every way a connection can fail, refused ones too; only a name it cannot resolve
 * differs.
 */
function originErrorOf(cause: unknown, target: EngineTarget): OriginError {
  const text = String(cause)
  const failure = /internal error|resolve|DNS/i.test(text) ? 'connect' : 'reset'
  return new OriginError(failure, `${target.url} could not be asked: ${text}`, { cause })
}
