import { BoundedMap } from '../bounded-map.ts'
import { chainWords } from '../tokens/block-hash.ts'

/**
 * Longest time for which a refusal is repeated, ms. All clients that send this request from one address share it, so it
 * must be short beside the time for which a request occupies an engine.
 */
const MAX_REPEAT_MS = 100

/** Requests whose refusal is remembered. The one that was refused longest ago is forgotten first. */
const MAX_REQUESTS = 10_000

interface RecordedRefusal {
  readonly at: number
  /** When the client may repeat the request. */
  readonly retryAt: number
}

/** Refusals of the last moment, so that a client that repeats its request at once is answered without a decision. */
export class RefusedRequests {
  readonly #requests = new BoundedMap<string, RecordedRefusal>(MAX_REQUESTS)
  #lastAt = -Infinity

  /** Whether a request may be remembered. false: names of requests need not be made. */
  isQuiet(now: number): boolean {
    return now < this.#lastAt || now - this.#lastAt >= MAX_REPEAT_MS
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
    if (now >= known.at && now < Math.min(known.retryAt, known.at + MAX_REPEAT_MS)) return known.retryAt - now
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
