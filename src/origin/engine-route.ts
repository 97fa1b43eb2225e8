/** Reads a management route of an engine over the same connections as requests, with the same keys and bindings. */
import type { EngineTarget } from '../ports/engine-target.ts'
import type { Origin } from '../ports/origin.ts'
import { headerOf } from './headers.ts'

/**
 * Time limits of a probe, ms. A healthy engine answers in milliseconds under full load too, because its HTTP server is
 * a separate process.
 */
const CONNECT_MS = 2_000
const ANSWER_MS = 5_000

/** Limit of an answer, bytes. */
const ROUTE_BYTES = 1024 * 1024

export interface RouteAnswer {
  readonly status: number
  readonly text: string
  /** `server` header. */
  readonly server: string | null
}

interface RouteLimits {
  readonly limitMs?: number
  readonly limitBytes?: number
}

/** Rejects with an OriginError. */
export async function readRoute(
  origin: Origin,
  target: EngineTarget,
  path: string,
  { limitMs = ANSWER_MS, limitBytes = ROUTE_BYTES }: RouteLimits = {},
): Promise<RouteAnswer> {
  const answer = await origin.send({
    target,
    method: 'GET',
    path,
    headers: ['accept-encoding', 'identity'],
    body: null,
    connectMs: CONNECT_MS,
    firstByteMs: limitMs,
    signal: new AbortController().signal,
  })
  const text = new TextDecoder().decode(await answer.read(limitBytes))
  return { status: answer.status, text, server: headerOf(answer.headers, 'server') }
}
