import type { AbortSignalLike } from '../ports/abort-signal.ts'
import type { OriginTarget } from '../ports/engine-target.ts'
import type { OriginRequest } from '../ports/origin.ts'
import type { Timers } from '../ports/timers.ts'
import { defaultTimers } from '../timers.ts'

interface OwnRequestOptions {
  /** Limit until the first byte of the answer, ms. */
  readonly limitMs: number
  /** Absent: `limitMs`. */
  readonly connectMs?: number
  /** JSON text that is posted. Absent: none. */
  readonly json?: string | Uint8Array | undefined
  /** Absent: POST with `json`, else GET. */
  readonly method?: OriginRequest['method']
  /** Further headers, flat. */
  readonly headers?: readonly string[]
  /** Absent: only the limits end the request. */
  readonly signal?: AbortSignalLike
  /** Absent: timers of the runtime. */
  readonly timers?: Timers | undefined
}

const utf8 = new TextEncoder()

const READS = ['accept-encoding', 'identity'] as const
const POSTS = ['content-type', 'application/json', ...READS] as const

/** A request that the gateway makes itself, to an engine or to a service beside it. It reads the answer. */
export function ownRequest<Target extends OriginTarget>(
  target: Target,
  path: string,
  options: OwnRequestOptions,
): OriginRequest & { readonly target: Target } {
  const { limitMs, connectMs = limitMs, json, headers = [], timers = defaultTimers } = options
  return {
    target,
    method: options.method ?? (json === undefined ? 'GET' : 'POST'),
    path,
    headers: [...(json === undefined ? READS : POSTS), ...headers],
    body: json === undefined ? null : [typeof json === 'string' ? utf8.encode(json) : json],
    connectMs,
    firstByteMs: limitMs,
    protocol: null,
    expectsJson: false,
    expectsStream: false,
    signal: options.signal ?? new AbortController().signal,
    timers,
  }
}
