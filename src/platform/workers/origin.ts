/** Calls engines with fetch. Bytes pass natively unless the gateway must read them. */
import { expectedOf } from '../../origin/relay/answer-start.ts'
import { headersForTarget, headersInit, headersOfAnswer } from '../../origin/headers.ts'
import type { OriginTarget } from '../../ports/engine-target.ts'
import {
  type Origin,
  type OriginAnswer,
  OriginError,
  type OriginRequest,
  STALE_CONNECTION_MS,
} from '../../ports/origin.ts'
import { FetchedAnswer } from './fetched-answer.ts'
import { ReaderSource } from './reader-source.ts'
import { UpstreamGuard } from './upstream-guard.ts'

interface WorkersOriginOptions {
  /** Epoch milliseconds; on Workers it moves only with I/O. */
  readonly now?: () => number
  /** Bindings for fetching from engines, by name (VPC, mTLS, another Worker). */
  readonly bindings?: Readonly<Record<string, unknown>>
}

type Fetch = (url: string, init: RequestInit) => Promise<Response>

export function workersOrigin(options: WorkersOriginOptions = {}): Origin {
  const now = options.now ?? Date.now
  return {
    async send(request: OriginRequest): Promise<OriginAnswer> {
      if (request.signal.aborted) throw request.signal.reason
      const fetcher = fetcherOf(request.target, options.bindings ?? {})
      const parts = { request, fetcher, now, startedAt: now() }
      try {
        return await send(parts)
      } catch (error) {
        // The engine closed an idle connection just as it was used. It did no work, so one retry is safe.
        const isSoon = now() - parts.startedAt <= STALE_CONNECTION_MS
        const stale = isSoon && error instanceof OriginError && error.failure === 'reset'
        if (stale && !request.signal.aborted) return send(parts)
        throw error
      }
    },
  }
}

interface SendParts {
  readonly request: OriginRequest
  readonly fetcher: Fetch
  readonly now: () => number
  readonly startedAt: number
}

/** Fails as `connect` if the Worker does not have the binding that the configuration names. */
function fetcherOf(target: OriginTarget, bindings: Readonly<Record<string, unknown>>): Fetch {
  if (target.binding === null) return (url, init) => fetch(url, init)
  const binding = bindings[target.binding] as { fetch?: unknown } | undefined
  if (typeof binding?.fetch !== 'function') {
    throw new OriginError(
      'connect',
      `engine ${target.id} needs the binding ${target.binding}, which this Worker does not have`,
    )
  }
  const fetcher = binding as { fetch: Fetch }
  return (url, init) => fetcher.fetch(url, init)
}

async function send({ request, fetcher, now }: SendParts): Promise<OriginAnswer> {
  const guard = new UpstreamGuard(request, now)
  const { controller } = guard
  try {
    const response = await fetcher(request.target.url + request.path, {
      method: request.method,
      headers: headersInit(headersForTarget(request.headers, request.target)),
      body: bodyOf(request),
      // A redirect would send the client's prompt to an address that is not configured.
      redirect: 'manual',
      signal: controller.signal,
    })
    const raw: string[] = []
    response.headers.forEach((value, name) => raw.push(name, value))
    const headers = headersOfAnswer(raw)
    const source = new ReaderSource(response.body, controller)
    return new FetchedAnswer({ status: response.status, headers }, source, {
      now,
      guard,
      expected: expectedOf(request),
    })
  } catch (error) {
    guard.over()
    // The gateway's own abort reason instead of fetch's error.
    if (controller.signal.aborted) throw controller.signal.reason
    throw originErrorOf(error, request.target)
  }
}

function bodyOf({ method, body }: OriginRequest): BodyInit | null {
  if (body === null) return method === 'POST' ? new Uint8Array(0) : null
  // A single piece has a known length; a stream of pieces would be sent chunked.
  return body.length === 1 ? (body[0] as Uint8Array<ArrayBuffer>) : new Blob(body as Uint8Array<ArrayBuffer>[])
}

/** workerd has one error for nearly all connection failures, including refusals. Only an unresolvable name differs. */
function originErrorOf(cause: unknown, target: OriginTarget): OriginError {
  const text = String(cause)
  const failure = /internal error|resolve|DNS/i.test(text) ? 'connect' : 'reset'
  return new OriginError(failure, `${target.url} could not be reached: ${text}`, { cause })
}
