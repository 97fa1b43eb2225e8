/** The answer to a stream that waits for an engine: heartbeats, and then the engine's answer or an error event. */
import { failures } from '../failure.ts'
import { gatewayError } from './gateway-error.ts'
import { errorOf } from '../engines/error-body.ts'
import { OriginError } from '../ports/origin.ts'
import type { Ports } from '../ports.ts'
import type { GatewayError } from '../protocols/error-shape.ts'
import { HEARTBEAT } from '../protocols/stream/event.ts'
import { timersOf } from '../timers.ts'
import type { Exchange } from './exchange.ts'
import { FencedSignal } from './pause/fenced-signal.ts'
import { isEventStream } from './headers.ts'
import { LongWait } from './long-wait.ts'
import { PullRelay } from './relay/pull-relay.ts'

type Forward = (exchange: Exchange) => Promise<Response>

/** Longest error of an engine that is read for its event, characters. */
const ERROR_CHARS = 16_384

/** Adds heartbeats to streams that wait in the gateway, for room, for an engine, for an adapter or for a leg. */
export const withHeartbeatsWhileWaiting =
  (next: Forward, ports: Pick<Ports, 'timers' | 'now'>): Forward =>
  (exchange) => {
    const { heartbeatMs, scope, signal } = exchange
    if (heartbeatMs <= 0 || scope.delivery !== undefined) return next(exchange)
    const longWait = new LongWait(heartbeatMs, timersOf(scope, ports))
    const ending = new FencedSignal(signal)
    exchange.longWait = longWait
    exchange.signal = ending
    const forwarded = next(exchange)
    const started = longWait.exceeded.then(() =>
      new WaitingStream(exchange, { forwarded, ending, longWait, ports }).answer(),
    )
    return Promise.race([forwarded, started])
  }

interface WaitingStreamParts {
  readonly forwarded: Promise<Response>
  /** Ends the request: its client has left. */
  readonly ending: FencedSignal
  readonly longWait: LongWait
  readonly ports: Pick<Ports, 'now'>
}

class WaitingStream {
  readonly #exchange: Exchange
  readonly #parts: WaitingStreamParts
  /** Heartbeats until the engine's answer is here. */
  readonly #wait: PullRelay
  #hasBegun = false
  /** The engine's answer. null: it has not come. */
  #answer: ReadableStream<Uint8Array> | null = null
  #reader: ReadableStreamDefaultReader<Uint8Array> | null = null
  /** Why the client gets no answer. null: it gets one. */
  #error: GatewayError | null = null

  constructor(exchange: Exchange, parts: WaitingStreamParts) {
    this.#exchange = exchange
    this.#parts = parts
    parts.longWait.hasBegunAnswer = true
    const { protocol, scope, heartbeatMs, writeMs } = exchange
    // On Workers nothing else runs on after the client has left: bookings would stay until their lease.
    const over = parts.forwarded.then(
      () => {},
      () => {},
    )
    scope.background(over)
    const encoder = new TextEncoder()
    this.#wait = new PullRelay({
      options: {
        scope,
        protocol,
        status: 200,
        headers: [],
        observe: false,
        hideUsage: false,
        heartbeatMs,
        writeMs,
        idleMs: 0,
        firstEvents: 0,
        onEvents: () => Infinity,
        onFirstByte: () => {},
        truncationEvent: (_failure, sequence) =>
          encoder.encode(protocol.errors.event(this.#error ?? gatewayError(null), sequence)),
        settled: ({ end }) => {
          if (end === 'client_gone') this.#end()
        },
      },
      sse: true,
      start: null,
      held: [],
      ended: false,
      now: () => parts.ports.now(),
      next: () => this.#forwarded(),
      stop: () => {},
    })
    // The relay of the answer must not write to the client itself.
    exchange.scope = { ...scope, client: null }
  }

  answer(): Response {
    const { requestId, id, clientHeaders, protocol } = this.#exchange
    const headers = new Headers({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache',
      'x-accel-buffering': 'no',
      'x-firstlight-decision': id,
    })
    for (const name of protocol.errors.requestIdHeaders) headers.set(name, requestId)
    for (let at = 0; at < clientHeaders.length; at += 2) headers.append(clientHeaders[at]!, clientHeaders[at + 1]!)
    const body = new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          const piece = await this.#next()
          if (piece === null) controller.close()
          else controller.enqueue(piece)
        },
        cancel: () => this.#cancel(),
      },
      { highWaterMark: 0 },
    )
    return new Response(body, { status: 200, headers })
  }

  async #next(): Promise<Uint8Array | null> {
    if (!this.#hasBegun) {
      this.#hasBegun = true
      return HEARTBEAT
    }
    if (this.#reader === null) {
      // Read to its end, also when the answer comes beside a heartbeat: its timers would end the stream later.
      const piece = await this.#wait.read()
      if (piece !== null) return piece
      this.#reader = this.#answer!.getReader()
    }
    const { done, value } = await this.#reader.read()
    return done ? null : value
  }

  /** Ends when the answer of the engine is here. Rejects if the client gets none. */
  async #forwarded(): Promise<null> {
    this.#answer = await this.#parts.forwarded.then(
      (response) => this.#streamOf(response),
      (error: unknown) => this.#refused(gatewayError(error)),
    )
    return null
  }

  async #streamOf(response: Response): Promise<ReadableStream<Uint8Array>> {
    const { status, headers, body } = response
    if (status === 200 && body !== null && isEventStream(headers.get('content-type'))) return body
    const { message, type, code, param } = errorOf((await response.text()).slice(0, ERROR_CHARS))
    if (status < 300) return this.#refused({ ...failures.engine_truncated, param, message: NO_STREAM })
    const shape = status < 500 ? failures.bad_value : failures.engine_unreachable
    return this.#refused({ status, type: type ?? shape.type, code: code ?? shape.code, param, message })
  }

  #refused(error: GatewayError): never {
    this.#error = error
    throw new OriginError('reset', 'the stream got no answer after its wait')
  }

  #cancel(): void {
    this.#wait.cancel()
    if (this.#reader === null) void this.#answer?.cancel()
    else void this.#reader.cancel()
  }

  #end(): void {
    // An OriginError would be a failure of the engine.
    this.#parts.ending.fence(new Error('the client has disconnected'))
  }
}

const NO_STREAM = 'The engine answered without a stream.'
