import { Failure } from '../failure.ts'
import type { GatewayContext } from './context.ts'
import type { InferenceRequest } from './inference-exchange.ts'
import { BoundedMap } from '../core/bounded-map.ts'
import { chainWords } from '../core/tokens/block-hash.ts'

/** Longer bodies are decided anew: the comparison would delay other requests. */
const MOST_BYTES = 1024 * 1024

type Means = Pick<GatewayContext, 'ports' | 'usage'>

/** Clients that repeat a request at once, although its refusal had a Retry-After. */
export class RepeatedRequests {
  readonly #refused = new RefusedRequests()

  /**
   * Rejects a request that was refused a moment ago, before its prompt is measured. Returns the name of the request for
   * `failed`; null: it was not needed.
   */
  check({ ports, usage }: Means, parsed: InferenceRequest): string | null {
    const now = ports.now()
    if (this.#refused.isQuiet(now) || isLong(parsed)) return null
    const name = nameOf(parsed)
    const retryAfterMs = this.#refused.retryAfterMs(name, now)
    if (retryAfterMs === null) return name
    usage.add(parsed.caller.tenant, { engine: null, usage: null })
    throw new Failure('overloaded', 'This request was refused a moment ago. Wait for the time in retry-after.', {
      retryAfterMs,
      cause: 'repeated before its Retry-After',
    })
  }

  /** Remembers the refusal of a request for lack of room. */
  failed({ ports }: Means, error: unknown, parsed: InferenceRequest, name: string | null): void {
    if (!(error instanceof Failure) || error.reason !== 'overloaded' || isLong(parsed)) return
    this.#refused.refused(name ?? nameOf(parsed), error.retryAfterMs ?? 0, ports.now())
  }
}

const isLong = ({ body }: InferenceRequest): boolean => body.bytes.length > MOST_BYTES

/** Everything of a request that its admission depends on. */
const nameOf = ({ incoming, endpoint, caller, body, routes }: InferenceRequest): string =>
  requestName(
    [
      caller.tenant,
      incoming.scope.remoteAddress ?? '',
      endpoint.path,
      incoming.request.headers.get('x-firstlight-options') ?? '',
      incoming.request.headers.get(routes[0]!.pool.session.header) ?? '',
    ],
    body.bytes,
  )

/* The refusals themselves. */

/**
 * Longest time for which a refusal is repeated, ms. All clients that send this request from one address share it, so it
 * must be short beside the time for which a request occupies an engine.
 */
const MOST_REPEAT_MS = 100
/** Requests whose refusal is remembered. The one that was refused longest ago is forgotten first. */
const MAX_REQUESTS = 10_000

interface Refused {
  readonly at: number
  /** When the client may repeat the request. */
  readonly retryAt: number
}

/** Refusals of the last moment, so that a client that repeats its request at once is answered without a decision. */
export class RefusedRequests {
  readonly #requests = new BoundedMap<string, Refused>(MAX_REQUESTS)
  #lastAt = -Infinity

  /** Whether a request may be remembered. false: names of requests need not be made. */
  isQuiet(now: number): boolean {
    return now < this.#lastAt || now - this.#lastAt >= MOST_REPEAT_MS
  }

  /** @param request name of the request, the same for a repetition only */
  refused(request: string, retryAfterMs: number, now: number): void {
    this.#requests.set(request, { at: now, retryAt: now + retryAfterMs })
    this.#lastAt = now
  }

  /** Time, ms, after which a repeated request may be sent again. null: decide anew. */
  retryAfterMs(request: string, now: number): number | null {
    const known = this.#requests.get(request)
    if (known === undefined) return null
    if (now >= known.at && now < Math.min(known.retryAt, known.at + MOST_REPEAT_MS)) return known.retryAt - now
    this.#requests.delete(request)
    return null
  }
}

/** Name of a request for `RefusedRequests`. `parts`: what distinguishes equal bodies. */
export function requestName(parts: readonly string[], body: Uint8Array): string {
  const bytes = body.byteOffset % 4 === 0 ? body : new Uint8Array(body)
  const state = { lo: 0, hi: 0 }
  const words = new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2)
  chainWords(state, words, 0, words.length)
  const rest = body.length & ~3
  chainWords(state, [...body.subarray(rest), body.length], 0, body.length - rest + 1)
  return JSON.stringify([...parts, state.lo, state.hi])
}
