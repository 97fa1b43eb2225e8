import type { Answer, BodyStream, BrokenConnection, Sink } from './answer.ts'
import type { Clock } from './clock.ts'
import { didYouMean } from '../config/problem.ts'

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
  async apply(
    rule: FaultRule,
    signal: AbortSignal,
    serve: () => Promise<Answer | BrokenConnection>,
  ): Promise<Answer | BrokenConnection> {
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
function spoil(
  answer: Answer | BrokenConnection,
  after: number,
  then: (sink: Sink) => void,
): Answer | BrokenConnection {
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

/* A fault as it is written in JSON, with names in snake_case. What is not understood is refused: it would do something else than it says. */

interface Field {
  readonly must: string
  holds(value: unknown): boolean
}

const number = (min: number, max: number): Field => ({
  must: `a number from ${min}${max === Infinity ? '' : ` to ${max}`}`,
  holds: (value) => typeof value === 'number' && value >= min && value <= max,
})
const whole = (min: number, max = Infinity): Field => {
  const { must, holds } = number(min, max)
  return { must: must.replace('a number', 'a whole number'), holds: (value) => Number.isInteger(value) && holds(value) }
}
const oneOf = (...names: readonly string[]): Field => ({
  must: `one of ${names.join(', ')}`,
  holds: (value) => names.includes(value as string),
})

const after = whole(0)
const needed: Readonly<Record<string, Readonly<Record<string, Field>>>> = {
  hang: { where: oneOf('head', 'body', 'middle') },
  status: { status: whole(200, 599) },
  malformed: { where: oneOf('head', 'body', 'record') },
}
const optional: Readonly<Record<string, Readonly<Record<string, Field>>>> = {
  hang: { after },
  reset: { after },
  cut: { after },
  status: { body: { must: 'JSON', holds: () => true } },
  slow: { factor: number(0, Infinity), delay_ms: number(0, Infinity) },
}
const ofAll: Readonly<Record<string, Field>> = {
  share: number(0, 1),
  count: whole(1),
  scope: oneOf('inference', 'all'),
}

/** Throws an Error that says what is wrong with it. */
export function readFault(text: string): FaultRule {
  const { kind, ...given } = objectOf(text)
  if (!faultKinds.includes(kind as FaultRule['kind']))
    throw new Error(`no fault is called ${JSON.stringify(kind)}: one of ${faultKinds.join(', ')}`)
  const name = kind as FaultRule['kind']
  for (const [field, { must }] of Object.entries(needed[name] ?? {}))
    if (!(field in given)) throw new Error(`${name} needs ${field}: ${must}`)
  const known = { ...needed[name], ...optional[name], ...ofAll }
  for (const [field, value] of Object.entries(given)) {
    const names = Object.keys(known)
    const found = known[field]
    if (found === undefined)
      throw new Error(`${name} has no "${field}"${didYouMean(field, names) || '.'} It takes ${names.join(', ')}`)
    if (!found.holds(value)) throw new Error(`${field} of ${name} must be ${found.must}, got ${JSON.stringify(value)}`)
  }
  const { delay_ms: delayMs, ...rest } = given
  return { kind: name, ...rest, ...(delayMs === undefined ? {} : { delayMs }) } as FaultRule
}

function objectOf(text: string): Record<string, unknown> {
  const wrong = new Error('the body must be a fault as JSON, such as {"kind":"refuse"}')
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  } catch (error) {
    wrong.cause = error
  }
  throw wrong
}
