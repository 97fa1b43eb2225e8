import type { Answer, BodyStream, BrokenConnection, Sink } from './answer.ts'
import type { Clock } from './clock.ts'

/**
 * What can go wrong with an engine. `after` counts the records (writes) of a streamed answer that still pass.
 *
 * - `refuse`: nobody listens; where there are no sockets, the call fails.
 * - `hang`: nothing comes: before the head, after it, or in the middle of the answer.
 * - `reset`: the connection breaks: before the head (`after: 0`) or in the middle.
 * - `cut`: the answer ends as if it were complete, but too early.
 * - `status`: an error answer at once.
 * - `slow`: every step takes `factor` times as long, and `delayMs` is spent before the head.
 * - `close_idle`: a kept connection is closed when the next request comes in on it.
 * - `malformed`: bytes that are not HTTP, a body that is not JSON, or a record that is not.
 */
export type Fault =
  | { readonly kind: 'refuse' }
  | { readonly kind: 'hang'; readonly where: 'head' | 'body' | 'middle'; readonly after?: number }
  | { readonly kind: 'reset'; readonly after?: number }
  | { readonly kind: 'cut'; readonly after?: number }
  | { readonly kind: 'status'; readonly status: number; readonly body?: unknown }
  | { readonly kind: 'slow'; readonly factor?: number; readonly delayMs?: number }
  | { readonly kind: 'close_idle' }
  | { readonly kind: 'malformed'; readonly where: 'head' | 'body' | 'record' }

export interface FaultScope {
  /** Share of requests that it hits, 0 to 1; all by default. */
  readonly share?: number
  /** How many requests it hits before it is over; no limit by default. */
  readonly count?: number
  /** `inference` (default) leaves /health, /metrics and other questions alone. */
  readonly scope?: 'inference' | 'all'
}

export type FaultRule = Fault & FaultScope

export const faultKinds = ['refuse', 'hang', 'reset', 'cut', 'status', 'slow', 'close_idle', 'malformed'] as const

/** The fault of one engine, and whom it hits. */
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

  /** The fault that this request meets, or null. Counts it. */
  meet(inference: boolean): FaultRule | null {
    const rule = this.#rule
    if (rule === null || rule.kind === 'refuse' || this.#left <= 0) return null
    if (rule.scope !== 'all' && !inference) return null
    if (rule.share !== undefined && this.#random() >= rule.share) return null
    this.#left -= 1
    return rule
  }

  /** Answers with the fault in the way. */
  async apply(rule: FaultRule, signal: AbortSignal, serve: () => Promise<Answer | BrokenConnection>): Promise<Answer | BrokenConnection> {
    switch (rule.kind) {
      case 'hang':
        if (rule.where === 'head') return this.#hang(signal)
        return spoil(await serve(), rule.where === 'body' ? 0 : (rule.after ?? 3), () => undefined)
      case 'reset':
        if ((rule.after ?? 3) === 0) return { broken: 'reset' }
        return spoil(await serve(), rule.after ?? 3, (sink) => sink.fail())
      case 'cut':
        return spoil(await serve(), rule.after ?? 3, (sink) => sink.end())
      case 'status':
        return {
          status: rule.status,
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(rule.body ?? { error: { message: 'Injected fault', type: 'InternalServerError', param: null, code: rule.status } }),
        }
      case 'slow':
        if (rule.delayMs !== undefined) await new Promise<void>((resolve) => this.#clock.after(rule.delayMs!, resolve))
        return serve()
      case 'malformed':
        return malformed(rule.where, await serve())
      case 'close_idle':
      case 'refuse':
        return serve()
    }
  }

  /** Nothing, until the client is gone. */
  #hang(signal: AbortSignal): Promise<BrokenConnection> {
    return new Promise((resolve) => {
      if (signal.aborted) resolve({ broken: 'reset' })
      signal.addEventListener('abort', () => resolve({ broken: 'reset' }), { once: true })
    })
  }
}

/** Lets `after` writes of the body pass, then does `then` in place of all others. */
function spoil(answer: Answer | BrokenConnection, after: number, then: (sink: Sink) => void): Answer | BrokenConnection {
  if ('broken' in answer) return answer
  const { body } = answer
  // An answer in one piece is cut in half, so that its length does not fit.
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

const inPieces = (text: string): BodyStream => (sink) => {
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
