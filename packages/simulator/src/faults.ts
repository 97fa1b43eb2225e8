import type { Answer, BodyStream, BrokenConnection, Sink } from './answer.ts'
import type { Clock } from './clock.ts'

/**
 * Faults of an engine. `after` is the number of records (writes) of a streamed answer that still pass.
 *
 * - `refuse`: the port is closed; without sockets, the call fails.
 * - `hang`: no bytes: before the response head, after it, or in the middle of the body.
 * - `reset`: the connection is reset: before the head (`after: 0`) or in the middle.
 * - `cut`: the answer ends too early, as if it were complete.
 * - `status`: an immediate error response.
 * - `freeze`: the engine core stops: nothing moves, running answers included. The HTTP server still answers.
 * - `slow`: every step takes `factor` times as long, with `delayMs` before the head.
 * - `wrong`: the answers are those of other weights.
 * - `close_idle`: a kept-alive connection is closed when the next request arrives on it.
 * - `malformed`: bytes that are not HTTP, a body that is not JSON, or a broken record.
 */
type Fault =
  | { readonly kind: 'refuse' }
  | { readonly kind: 'hang'; readonly where: 'head' | 'body' | 'middle'; readonly after?: number }
  | { readonly kind: 'reset'; readonly after?: number }
  | { readonly kind: 'cut'; readonly after?: number }
  | { readonly kind: 'status'; readonly status: number; readonly body?: unknown }
  | { readonly kind: 'freeze' }
  | { readonly kind: 'slow'; readonly factor?: number; readonly delayMs?: number }
  | { readonly kind: 'wrong' }
  | { readonly kind: 'close_idle' }
  | { readonly kind: 'malformed'; readonly where: 'head' | 'body' | 'record' }

interface FaultScope {
  /** Share of affected requests, 0 to 1; all by default. */
  readonly share?: number
  /** Number of affected requests before the fault ends; no limit by default. */
  readonly count?: number
  /** `inference` (default) does not affect /health, /metrics and similar requests. */
  readonly scope?: 'inference' | 'all'
}

export type FaultRule = Fault & FaultScope

export const faultKinds = [
  'refuse',
  'hang',
  'reset',
  'cut',
  'status',
  'freeze',
  'slow',
  'wrong',
  'close_idle',
  'malformed',
] as const

/** The fault of one engine, with its scope. */
export class FaultSwitch {
  readonly #random: () => number
  readonly #clock: Clock
  #rule: FaultRule | null = null
  #left = Infinity

  constructor(clock: Clock, random: () => number) {
    this.#clock = clock
    this.#random = random
  }

  get rule(): FaultRule | null {
    return this.#rule
  }

  set(rule: FaultRule | null): void {
    this.#rule = rule
    this.#left = rule?.count ?? Infinity
  }

  /** Returns the fault for this request, or null, and counts it. */
  ruleFor(inference: boolean): FaultRule | null {
    const rule = this.#rule
    if (rule === null || rule.kind === 'refuse' || this.#left <= 0) return null
    if (rule.scope !== 'all' && !inference) return null
    if (rule.share !== undefined && this.#random() >= rule.share) return null
    this.#left -= 1
    return rule
  }

  /** Answers a request under the fault. */
  async apply(
    rule: FaultRule,
    signal: AbortSignal,
    serve: () => Promise<Answer | BrokenConnection>,
  ): Promise<Answer | BrokenConnection> {
    switch (rule.kind) {
      case 'hang':
        if (rule.where === 'head') return this.#hang(signal)
        return interrupt(await serve(), rule.where === 'body' ? 0 : (rule.after ?? 3), () => undefined)
      case 'reset':
        if ((rule.after ?? 3) === 0) return { broken: 'reset' }
        return interrupt(await serve(), rule.after ?? 3, (sink) => sink.fail())
      case 'cut':
        return interrupt(await serve(), rule.after ?? 3, (sink) => sink.end())
      case 'status':
        return {
          status: rule.status,
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(
            rule.body ?? {
              error: { message: 'Injected fault', type: 'InternalServerError', param: null, code: rule.status },
            },
          ),
        }
      case 'slow':
        if (rule.delayMs !== undefined) await new Promise<void>((resolve) => this.#clock.after(rule.delayMs!, resolve))
        return serve()
      case 'malformed':
        return malformed(rule.where, await serve())
      case 'wrong':
      case 'close_idle':
      case 'freeze':
      case 'refuse':
        return serve()
    }
  }

  /** Sends nothing until the client disconnects. */
  #hang(signal: AbortSignal): Promise<BrokenConnection> {
    return new Promise((resolve) => {
      if (signal.aborted) resolve({ broken: 'reset' })
      signal.addEventListener('abort', () => resolve({ broken: 'reset' }), { once: true })
    })
  }
}

/** Passes `after` writes of the body, then replaces the rest by `then`. */
function interrupt(
  answer: Answer | BrokenConnection,
  after: number,
  then: (sink: Sink) => void,
): Answer | BrokenConnection {
  if ('broken' in answer) return answer
  const { body } = answer
  // A body in one piece is cut in half, so that it does not match its length.
  const source: BodyStream = typeof body === 'string' ? inPieces(body) : body
  const stream: BodyStream = (sink) => {
    let left = typeof body === 'string' ? Math.min(after, 1) : after
    let over = false
    return source({
      write: (text) => {
        if (left > 0) sink.write(text)
        else if (!over) {
          over = true
          then(sink)
        }
        left -= 1
      },
      end: () => {
        if (!over) sink.end()
      },
      fail: () => {
        if (!over) sink.fail()
      },
    })
  }
  return { ...answer, body: stream }
}

const inPieces =
  (text: string): BodyStream =>
  (sink) => {
    const middle = Math.ceil(text.length / 2)
    sink.write(text.slice(0, middle))
    sink.write(text.slice(middle))
    sink.end()
    return () => undefined
  }

function malformed(where: 'head' | 'body' | 'record', answer: Answer | BrokenConnection): Answer | BrokenConnection {
  if ('broken' in answer) return answer
  if (where === 'head') return { broken: 'garbage' }
  const { body } = answer
  if (typeof body === 'string') return { ...answer, body: body.slice(0, Math.ceil(body.length / 2)) }
  return {
    ...answer,
    body: (sink) => {
      let count = 0
      return body({
        ...sink,
        write: (text) => {
          count += 1
          sink.write(count === 2 || where === 'body' ? 'data: {"id": "chatcmpl-broken", "choi\n\n' : text)
        },
      })
    },
  }
}
