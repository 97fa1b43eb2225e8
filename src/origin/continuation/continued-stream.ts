/** A stream that goes on at another engine if its engine fails. See docs/continuation.md. */
import type { Continuable, NotContinued } from '../../core/continuation/features.ts'
import { GapEstimator } from '../../core/continuation/idle-limit.ts'
import { OutputRecord } from '../../core/continuation/output-record.ts'
import { endedAs, type AttemptFailure, type Result, type Usage } from '../../core/contract/contract.ts'
import type { EngineTarget, OriginAnswer, RelayOptions, RelayResult } from '../../ports.ts'
import type { Digests } from '../acquire.ts'
import type { AttemptContext, AttemptFailed } from '../classify.ts'
import { abortReason } from '../exchange.ts'
import { headersInit } from '../headers.ts'
import { HEARTBEAT } from '../relay/controller.ts'
import { ABORT_DELAY_MS, cutError } from '../relay/pull-relay.ts'
import { SseRecords } from '../relay/transform.ts'
import { defaultTimers } from '../timers.ts'
import { handOver, type Handover, type HandoverResult } from './handover.ts'
import { CheckedSegment } from './checked-segment.ts'
import {
  closingRecords,
  ContinuedSegment,
  finishRecords,
  FirstSegment,
  newState,
  type Segment,
  type StreamState,
} from './segments.ts'

/** The relay of one engine's answer, with its booking. */
export interface SegmentRelay {
  options(): RelayOptions
  /** Ends the booking. */
  release(end: RelayResult, usage: Usage | null): void
}

/** The relay of the request, whose record ends with the stream. */
export interface RequestRelay extends SegmentRelay {
  finish(result: Result, usage: Usage | null, failed: readonly AttemptFailed[]): void
}

export interface ContinuedParts {
  readonly attempt: AttemptContext
  readonly request: Continuable
  readonly answer: OriginAnswer
  readonly relay: RequestRelay
  readonly digests: Digests
  /** Continuations that are allowed. */
  readonly max: number
  suspect(engine: AttemptFailed['engine']): void
  /** Makes the relay of a further engine. */
  relayOf(handover: Handover): SegmentRelay
}

/** One engine's part of the stream. */
interface Part {
  readonly attempt: AttemptContext
  readonly reader: ReadableStreamDefaultReader<Uint8Array>
  readonly records: SseRecords
  readonly segment: Segment
  readonly relay: SegmentRelay
  /** null: it runs. */
  end: RelayResult | null
}

const encoder = new TextEncoder()
/** Interval at which a stream looks whether its engine drains, ms. */
const LOOK_EVERY_MS = 1_000
const NOTHING = new Uint8Array(0)

/** Relays a response whose stream may be continued. */
export function relayContinued(parts: ContinuedParts): Response {
  const options = parts.relay.options()
  const { stream } = new ContinuedStream(parts, options)
  return new Response(stream, { status: options.status, headers: headersInit(options.headers) })
}

class ContinuedStream {
  readonly stream: ReadableStream<Uint8Array>
  readonly #parts: ContinuedParts
  readonly #cutEvent: RelayOptions['cutEvent']
  readonly #state: StreamState
  readonly #failed: AttemptFailed[]
  #part: Part
  #continued = 0
  /** When it was last looked whether the engine drains. */
  #lookedAt = 0
  /** Bookings of this request so far. */
  #booked: number
  #isOver = false
  #isGone = false

  constructor(parts: ContinuedParts, options: RelayOptions) {
    this.#parts = parts
    this.#cutEvent = (failure) => options.cutEvent(failure)
    const longest = Math.max(0, ...parts.request.stops.map(({ length }) => length))
    this.#state = newState(parts.request, new OutputRecord(longest))
    this.#failed = [...parts.attempt.earlier]
    this.#booked = parts.attempt.earlier.length + 1
    const { attempt, answer, relay } = parts
    this.#part = openPart({ attempt, answer, relay, segment: new FirstSegment(this.#state) }, options)
    const pieces = this.#pieces()
    this.stream = new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          try {
            const { done, value } = await pieces.next()
            if (done === true) controller.close()
            else controller.enqueue(value)
          } catch {
            if (parts.attempt.exchange.signal.aborted) this.#clientGone()
            this.#end('engine_failed')
            controller.error(cutError())
          }
        },
        cancel: () => this.#clientGone(),
      },
      { highWaterMark: 0 },
    )
  }

  /** The bytes for the client. Throws if the stream ends early. */
  async *#pieces(): AsyncGenerator<Uint8Array, void> {
    for (;;) {
      const failure = yield* this.#relayPart()
      if (this.#isGone) throw cutError()
      if (failure === null) return this.#complete()
      if (this.#state.finished) {
        yield encoder.encode(closingRecords(this.#state))
        return this.#complete()
      }
      const moved = yield* failure === 'drained' ? this.#left() : this.#moved(failure)
      if (!moved) return
    }
  }

  /** Passes one engine's events. Returns its failure; null: the stream is complete. */
  async *#relayPart(): AsyncGenerator<Uint8Array, AttemptFailure | 'drained' | null> {
    const part = this.#part
    for (;;) {
      const chunk = await this.#read(part)
      if (chunk === null) break
      let text = ''
      for (const record of part.records.take(chunk)) {
        const taken = part.segment.take(record)
        text += typeof taken === 'string' ? taken : await taken
      }
      if (text !== '') yield encoder.encode(text)
      if (part.segment.failure !== null) break
      if (this.#mustLeave(part)) return 'drained'
    }
    const { failure } = part.segment
    if (failure !== null) void part.reader.cancel().catch(() => {})
    if (part.end?.end === 'client_gone' && failure === null) this.#clientGone()
    return failure ?? part.end?.failure ?? (this.#state.done ? null : 'reset')
  }

  /** True if the engine drains and its deadline has passed. Looks once a second, while nothing forbids to continue. */
  #mustLeave({ attempt }: Part): boolean {
    const { placed, exchange, ports } = attempt
    const now = ports.now()
    if (now - this.#lookedAt < LOOK_EVERY_MS || this.#state.finished || this.#barrier() !== null) return false
    this.#lookedAt = now
    const digest = this.#parts.digests.current(placed.route, exchange.scope)
    const moveAt = digest?.engines.find(({ id }) => id === placed.engine.id)?.moveAt
    return moveAt !== undefined && moveAt <= now
  }

  /** Next bytes; null: the end, clean or not. */
  async #read({ reader, attempt }: Part): Promise<Uint8Array | null> {
    const { ports, placed } = attempt
    const startedAt = ports.now()
    try {
      const { done, value } = await reader.read()
      if (!done) gapsOf(placed.engine).add(ports.now() - startedAt)
      return done ? null : value
    } catch {
      return null
    }
  }

  /** Moves the stream to another engine. false: it ended, because its output is complete. Throws if it is cut. */
  async *#moved(failure: AttemptFailure): AsyncGenerator<Uint8Array, boolean> {
    this.#fail(failure)
    const reason = this.#barrier()
    const result = reason === null ? yield* this.#withHeartbeats(this.#handOver()) : reason
    if (this.#isGone) throw abandoned(result)
    if (typeof result === 'string') return yield* this.#cut(result, failure)
    if (result.kind === 'refused') {
      this.#failed.splice(0, Infinity, ...result.failed)
      return yield* this.#cut(result.reason, failure)
    }
    if (result.kind === 'finished') {
      yield encoder.encode(finishRecords(this.#state, result))
      this.#note('finished')
      this.#complete()
      return false
    }
    yield* this.#begin(result)
    return true
  }

  /** Moves the stream off an engine that drains. It stays there if no other engine takes it. */
  async *#left(): AsyncGenerator<Uint8Array, boolean> {
    const part = this.#part
    const result = yield* this.#withHeartbeats(this.#handOver(true))
    if (this.#isGone) throw abandoned(result)
    if (result.kind !== 'moved') {
      this.#lookedAt = Infinity
      return true
    }
    void part.reader.cancel().catch(() => {})
    part.relay.release({ ...goneEnd, end: 'lapsed' }, null)
    yield* this.#begin(result)
    return true
  }

  /** Ends the booking of the engine that failed. */
  #fail(failure: AttemptFailure): void {
    const part = this.#part
    const { engine } = part.attempt.placed
    part.relay.release(cutEnd(part.end, failure), part.segment.usage)
    part.end = null
    this.#failed.push({ engine, failure, status: null })
    this.#parts.suspect(engine)
  }

  #barrier(): NotContinued | null {
    const { record, barrier } = this.#state
    if (this.#continued >= this.#parts.max) return 'attempts'
    if (barrier !== null) return barrier
    return record.promptIds === null ? 'no_token_ids' : null
  }

  async #handOver(drains = false): Promise<HandoverResult> {
    const { digests, suspect } = this.#parts
    const { attempt } = this.#part
    const input = { attempt, state: this.#state, digests, drains, booked: this.#booked, failed: this.#failed, suspect }
    const result = await handOver(input)
    this.#booked += result.booked
    return result
  }

  /** Starts to pass the events of the next engine. */
  async *#begin(handover: Handover): AsyncGenerator<Uint8Array, void> {
    const { attempt, answer, window, pending, tokens, dropped } = handover
    const from = this.#part.attempt.placed.engine.id
    this.#continued++
    const segment = new ContinuedSegment(this.#state, window)
    const relay = this.#parts.relayOf(handover)
    const checked = new CheckedSegment(segment, this.#state, handover)
    this.#part = openPart({ attempt, answer, relay, segment: checked }, relay.options())
    this.#note('continued')
    attempt.ports.log.info('stream_continued', {
      id: attempt.exchange.id,
      cluster: attempt.placed.route.cluster.id,
      from,
      engine: attempt.placed.engine.id,
      output_tokens: tokens,
      ...(dropped === 0 ? {} : { dropped_tokens: dropped }),
    })
    const text = segment.send(pending)
    if (text !== '') yield encoder.encode(text)
  }

  /** Sends the error event and breaks the connection. */
  async *#cut(reason: NotContinued, failure: AttemptFailure): AsyncGenerator<Uint8Array, boolean> {
    const { attempt } = this.#parts
    this.#note(reason)
    attempt.ports.log.warn('stream_not_continued', {
      id: attempt.exchange.id,
      cluster: attempt.placed.route.cluster.id,
      engine: this.#failed.at(-1)?.engine.id,
      reason,
    })
    this.#end('engine_failed')
    yield this.#cutEvent(failure)
    await new Promise((resolve) => setTimeout(resolve, ABORT_DELAY_MS))
    throw cutError()
  }

  async *#withHeartbeats<Value>(work: Promise<Value>): AsyncGenerator<Uint8Array, Value> {
    const { exchange, ports } = this.#parts.attempt
    const { heartbeatMs } = exchange
    if (heartbeatMs === 0) return await work
    const timers = exchange.scope.alarms ?? ports.alarms ?? defaultTimers
    for (;;) {
      const { promise: beat, resolve } = Promise.withResolvers<typeof BEAT>()
      const timer = timers.set(heartbeatMs, () => resolve(BEAT))
      const first = await Promise.race([work, beat]).finally(() => timer.cancel())
      if (first !== BEAT) return first
      yield HEARTBEAT
    }
  }

  #note(result: string): void {
    const { record } = this.#parts.attempt.exchange
    record.continuations = [...(record.continuations ?? []), result]
  }

  #complete(): void {
    const { relay, end, segment } = this.#part
    if (end !== null) relay.release(end, segment.usage)
    this.#end('complete')
  }

  #clientGone(): void {
    if (this.#isOver) return
    this.#isGone = true
    const part = this.#part
    void part.reader.cancel().catch(() => {})
    part.relay.release(part.end ?? goneEnd, part.segment.usage)
    this.#end(abortReason(this.#parts.attempt.exchange.scope))
  }

  #end(result: Result): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#parts.relay.finish(result, this.#state.usage, this.#failed)
  }
}

/** Learned per process or isolate. The entries end with the engines of a configuration. */
const gaps = new WeakMap<EngineTarget, GapEstimator>()

function gapsOf(engine: EngineTarget): GapEstimator {
  const known = gaps.get(engine) ?? new GapEstimator()
  gaps.set(engine, known)
  return known
}

type PartInput = Pick<Part, 'attempt' | 'segment' | 'relay'> & { readonly answer: OriginAnswer }

function openPart({ answer, ...part }: PartInput, options: RelayOptions): Part {
  const opened = { ...part, end: null as RelayResult | null }
  const passed = answer.pass({
    ...options,
    // Without the client's socket the platform returns a stream.
    scope: { ...options.scope, client: null },
    idleMs: gapsOf(part.attempt.placed.engine).limitMs(options.idleMs),
    observe: true,
    hideUsage: false,
    endsWithDone: false,
    cutEvent: () => NOTHING,
    settled: (end) => void (opened.end = end),
  })
  return Object.assign(opened, { reader: passed.body!.getReader(), records: new SseRecords() })
}

/** The client left during the handover. */
function abandoned(result: HandoverResult | NotContinued): Error {
  if (typeof result !== 'string' && result.kind === 'moved') {
    const { answer, attempt } = result
    answer.discard()
    const released = attempt.placed.booking.release(endedAs('abandoned'))
    if (released !== null) attempt.exchange.scope.background(released)
  }
  return cutError()
}

const BEAT: unique symbol = Symbol('heartbeat')
const goneEnd: RelayResult = { end: 'client_gone', failure: null, events: 0, usage: null, bytes: 0 }

const cutEnd = (end: RelayResult | null, failure: AttemptFailure): RelayResult => ({
  ...(end ?? goneEnd),
  end: 'engine_cut',
  failure,
})
