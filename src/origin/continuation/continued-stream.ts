/** A stream that goes on at another engine if its engine fails. See docs/continuation.md. */
import { isRepeatable, type Continuable, type NotContinued } from '../../core/continuation/continuable.ts'
import { OutputRecord } from '../../core/continuation/output-record.ts'
import { endedAs, type AttemptFailure, type Result, type Usage } from '../../core/contract/outcome.ts'
import type { OriginAnswer } from '../../ports/origin.ts'
import type { RelayOptions } from '../../ports/relay.ts'
import type { PoolDigests } from '../pool-digests.ts'
import type { AttemptContext, AttemptFailed } from '../attempt-context.ts'
import { abortReason } from '../abort-reason.ts'
import { headersInit } from '../headers.ts'
import { HEARTBEAT } from '../../protocols/stream/event.ts'
import { ABORT_DELAY_MS, truncationError } from '../relay/pull-relay.ts'
import { errorEvent } from '../relay/truncation-event.ts'
import { timersOf } from '../../timers.ts'
import { handOver, type Handover, type HandoverCause, type HandoverResult } from './handover.ts'
import {
  truncatedEnd,
  clientGoneEnd,
  openPart,
  passEvents,
  readPart,
  type Part,
  type SegmentRelay,
} from './stream-part.ts'
import { CheckedSegment } from './checked-segment.ts'
import { RepeatedSegment } from './repeated-segment.ts'
import { closingRecords, finishRecords, wholeUsage } from './closing-records.ts'
import { ContinuedSegment } from './continued-segment.ts'
import { FirstSegment } from './first-segment.ts'
import { SilenceWatch } from './silence-watch.ts'
import { newState, type StreamState } from './stream-state.ts'
import type { Segment } from './segment.ts'

/** The relay of the request, whose record ends with the stream. */
export interface RequestRelay extends SegmentRelay {
  finish(result: Result, usage: Usage | null, failed: readonly AttemptFailed[]): void
}

interface ContinuedParts {
  readonly attempt: AttemptContext
  readonly request: Continuable
  readonly answer: OriginAnswer
  readonly relay: RequestRelay
  readonly digests: PoolDigests
  /** Continuations that are allowed. */
  readonly max: number
  /** Longest output that is generated again, ms. */
  readonly replayMs: number
  suspect(engine: AttemptFailed['engine']): void
  /** Called once, when the request will not be sent again. `once`: it was not repeated. */
  dropRequest(once: boolean): void
  /** Makes the relay of a further engine. */
  relayOf(handover: Handover): SegmentRelay
}

const encoder = new TextEncoder()
/** Interval at which a stream looks whether its engine drains, ms. */
const LOOK_EVERY_MS = 1_000

/** Relays a response whose stream may be continued. */
export function relayContinued(parts: ContinuedParts): Response {
  const options = parts.relay.options()
  const { stream } = new ContinuedStream(parts, options)
  return new Response(stream, { status: options.status, headers: headersInit(options.headers) })
}

/** null: the stream is complete. */
type PartFailure = AttemptFailure | 'drained' | 'wedged' | null

class ContinuedStream {
  readonly stream: ReadableStream<Uint8Array>
  readonly #parts: ContinuedParts
  readonly #state: StreamState
  readonly #failed: AttemptFailed[]
  #part: Part
  /** Runs from the end of one part to the next. */
  #between: AsyncGenerator<Uint8Array, boolean> | null = null
  /** Continuations after a failure. Moves off engines that drain are not limited. */
  #continued = 0
  /** When it was last looked whether the engine drains. */
  #lookedAt = 0
  readonly #silence: SilenceWatch | null
  /** The handover of a silent stream: its engine's bytes wait for the result. null: none. */
  #rescue: Promise<HandoverResult | null> | null = null
  /** Bookings of this request so far. */
  #booked: number
  /** Time of the last bytes for the client. */
  #sentAt: number
  /** Time of the first byte. null: the request is not kept for a repetition (any more). */
  #keptFrom: number | null
  /** Only one engine got the request. */
  #isFirst = true
  #isOver = false
  #isGone = false

  constructor(parts: ContinuedParts, options: RelayOptions) {
    this.#parts = parts
    const longest = Math.max(0, ...parts.request.stops.map(({ length }) => length))
    const form = parts.attempt.exchange.protocol.asCompletion!
    this.#state = newState(parts.request, form, new OutputRecord(longest))
    this.#failed = [...parts.attempt.earlier]
    this.#sentAt = parts.attempt.ports.now()
    this.#keptFrom = this.#sentAt
    this.#booked = parts.attempt.race?.booked ?? parts.attempt.earlier.length + 1
    const { attempt, answer, relay } = parts
    this.#part = openPart({ attempt, answer, relay, segment: new FirstSegment(this.#state) }, options)
    this.#silence = this.#watchSilence()
    this.stream = new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          try {
            const piece = await this.#next()
            if (piece === null) controller.close()
            else controller.enqueue(piece)
          } catch {
            if (parts.attempt.exchange.signal.aborted) this.#clientGone()
            this.#end('engine_failed')
            controller.error(truncationError())
          }
        },
        cancel: () => this.#clientGone(),
      },
      { highWaterMark: 0 },
    )
  }

  /** The next bytes for the client; null: the end. Throws if the stream ends early. */
  async #next(): Promise<Uint8Array | null> {
    for (;;) {
      if (this.#between === null) {
        const next = await this.#nextOfPart()
        if (next instanceof Uint8Array) return next
        this.#between = this.#afterPart(next)
      }
      const { done, value } = await this.#between.next()
      if (done !== true) return value
      if (!value) return null
      this.#between = null
    }
  }

  /** What the client gets between two parts. Returns whether another part follows. */
  async *#afterPart(failure: PartFailure): AsyncGenerator<Uint8Array, boolean> {
    if (this.#isGone) throw truncationError()
    if (failure === 'wedged') return yield* this.#leaveWedged()
    if (failure !== null && !this.#state.finished)
      return yield* failure === 'drained' ? this.#leaveDraining() : this.#moveAfterFailure(failure)
    if (failure !== null) {
      yield encoder.encode(closingRecords(this.#state))
      if (this.#part.segment.failure !== null) this.#release(failure === 'drained' ? 'reset' : failure)
    }
    this.#complete()
    return false
  }

  /** The next bytes that one engine's events give, or the failure that ended them. */
  async #nextOfPart(): Promise<Uint8Array | PartFailure> {
    const part = this.#part
    while (part.segment.failure === null) {
      if (this.#mustLeave(part)) return 'drained'
      const chunk = await readPart(part)
      if (this.#rescue !== null && chunk !== HEARTBEAT && (await this.#rescue) !== null) return 'wedged'
      if (chunk === null) break
      // A heartbeat of the relay is no part of the engine's events.
      const passed = chunk === HEARTBEAT ? null : passEvents(part, chunk)
      const out = passed instanceof Promise ? await passed : passed
      this.#dropLateRequest()
      if (out === null && !this.#isHeartbeatDue()) continue
      this.#sentAt = part.attempt.ports.now()
      return out ?? HEARTBEAT
    }
    const { failure } = part.segment
    if (failure !== null) part.reader.cancel()
    if (part.end?.end === 'client_gone' && failure === null) this.#clientGone()
    return failure ?? part.end?.failure ?? (this.#state.done ? null : 'reset')
  }

  /** True if the engine drains and its deadline has passed. Looks once a second, while nothing forbids to continue. */
  #mustLeave({ attempt }: Part): boolean {
    const { placed, exchange, ports } = attempt
    const now = ports.now()
    if (now - this.#lookedAt < LOOK_EVERY_MS || this.#state.finished || this.#method().reason !== null) return false
    this.#lookedAt = now
    const digest = this.#parts.digests.current(placed.route, exchange.scope)
    const moveAt = digest?.engines.find(({ id }) => id === placed.engine.id)?.moveAt
    return moveAt !== undefined && moveAt <= now
  }

  /** Moves the stream to another engine. false: it ended, because its output is complete. Throws if it is truncated. */
  async *#moveAfterFailure(failure: AttemptFailure): AsyncGenerator<Uint8Array, boolean> {
    this.#fail(failure)
    const reason = this.#continued >= this.#parts.max ? 'attempts' : this.#method().reason
    this.#continued++
    const result = reason === null ? yield* this.#withHeartbeats(this.#handOver('failed')) : reason
    if (this.#isGone) throw abandoned(result)
    if (typeof result === 'string') return yield* this.#truncate(result, failure)
    if (result.kind === 'refused') {
      this.#failed.splice(0, Infinity, ...result.failed)
      return yield* this.#truncate(result.reason, failure)
    }
    return yield* this.#goOn(result)
  }

  async *#goOn(result: Exclude<HandoverResult, { kind: 'refused' }>): AsyncGenerator<Uint8Array, boolean> {
    if (result.kind === 'finished') {
      yield encoder.encode(finishRecords(this.#state, result))
      this.#note('finished')
      this.#complete()
      return false
    }
    yield* this.#begin(result)
    return true
  }

  /** null: no other engine could take the stream. */
  #watchSilence(): SilenceWatch | null {
    const { exchange, ports, placed } = this.#parts.attempt
    if (exchange.pinned !== null || placed.route.targets.size < 2) return null
    return new SilenceWatch({
      timers: timersOf(exchange.scope, ports),
      now: ports.now,
      silentSince: () => (this.#between === null ? this.#part.waitingSince : null),
      ask: () => this.#askToLeave(),
    })
  }

  /** Moves a silent stream if the pool finds its engine wedged. Returns whether it moves. */
  async #askToLeave(): Promise<boolean> {
    if (this.#isOver || this.#state.finished || this.#method().reason !== null) return false
    const { reader } = this.#part
    this.#rescue = this.#handOver('silent').then(
      (result) => (result.kind === 'refused' ? null : result),
      () => null,
    )
    const result = await this.#rescue
    if (result === null) {
      this.#rescue = null
      return false
    }
    if (this.#isOver) abandon(result)
    // Ends the wait for the engine.
    reader.cancel()
    return true
  }

  async *#leaveWedged(): AsyncGenerator<Uint8Array, boolean> {
    const result = await this.#rescue
    this.#rescue = null
    this.#part.relay.release({ ...clientGoneEnd, end: 'lapsed' }, null)
    this.#part.end = null
    return yield* this.#goOn(result as Exclude<HandoverResult, { kind: 'refused' }>)
  }

  /** Moves the stream off an engine that drains. It stays there if no other engine takes it. */
  async *#leaveDraining(): AsyncGenerator<Uint8Array, boolean> {
    const part = this.#part
    const result = yield* this.#withHeartbeats(this.#handOver('drains'))
    if (this.#isGone) throw abandoned(result)
    if (result.kind !== 'moved') {
      // An engine may have room later. Other reasons last as long as this part.
      const isFull = result.kind === 'refused' && result.reason === 'no_engine'
      this.#lookedAt = isFull ? part.attempt.ports.now() : Infinity
      return true
    }
    part.reader.cancel()
    part.relay.release({ ...clientGoneEnd, end: 'lapsed' }, null)
    yield* this.#begin(result)
    return true
  }

  /** Ends the booking of the engine that failed. */
  #fail(failure: AttemptFailure): void {
    const { engine } = this.#part.attempt.placed
    this.#dropLateRequest()
    this.#release(failure)
    this.#failed.push({ engine, failure, status: null })
    this.#parts.suspect(engine)
  }

  #release(failure: AttemptFailure): void {
    const part = this.#part
    part.relay.release(truncatedEnd(part.end, failure), part.segment.usage)
    part.end = null
  }

  /** How the stream can be continued from here. `reason`: why the output forbids it; null: it does not. */
  #method(): { readonly how: 'ids' | 'replay'; readonly reason: NotContinued | null } {
    const { record, barrier, byIds, request, hasOutput } = this.#state
    if (!hasOutput && this.#keptFrom !== null) return { how: 'replay', reason: null }
    if (barrier !== null && isRepeatable(barrier) && request.repeats && !byIds)
      return { how: 'replay', reason: this.#keptFrom === null ? 'replay_too_long' : null }
    return { how: 'ids', reason: barrier ?? (record.promptIds === null ? 'no_token_ids' : null) }
  }

  /** The client gets a comment while an engine repeats what it has. */
  #isHeartbeatDue(): boolean {
    const { exchange, ports } = this.#parts.attempt
    const now = ports.now()
    if (exchange.heartbeatMs === 0 || now - this.#sentAt < exchange.heartbeatMs) return false
    this.#sentAt = now
    return true
  }

  /** Releases the request at the first output, or when its output has become too long to be generated again. */
  #dropLateRequest(): void {
    if (this.#keptFrom === null || !this.#state.hasOutput) return
    const { attempt, request, replayMs } = this.#parts
    if (request.repeats && attempt.ports.now() - this.#keptFrom <= replayMs) return
    this.#dropRequest()
  }

  #dropRequest(): void {
    if (this.#keptFrom === null) return
    this.#keptFrom = null
    this.#parts.dropRequest(this.#isFirst)
  }

  async #handOver(cause: HandoverCause): Promise<HandoverResult> {
    const { digests, suspect } = this.#parts
    const { attempt } = this.#part
    const { how } = this.#method()
    const failed = this.#failed
    const input = { attempt, state: this.#state, digests, cause, how, booked: this.#booked, failed, suspect }
    const result = await handOver(input)
    this.#booked += result.booked
    return result
  }

  /** Starts to pass the events of the next engine. */
  async *#begin(handover: Handover): AsyncGenerator<Uint8Array, void> {
    const { attempt, answer, byIds, tokens } = handover
    const { silentMs } = this.#part
    const from = this.#part.attempt.placed.engine.id
    this.#isFirst = false
    this.#lookedAt = 0
    const relay = this.#parts.relayOf(handover)
    const { segment, begin } = this.#segmentOf(handover)
    this.#part = openPart({ attempt, answer, relay, segment }, relay.options())
    this.#note(byIds === null ? 'replayed' : 'continued')
    attempt.ports.log.info('stream_continued', {
      id: attempt.exchange.id,
      cluster: attempt.placed.route.cluster.id,
      from,
      engine: attempt.placed.engine.id,
      output_tokens: tokens,
      silent_ms: Math.round(silentMs),
      predicted_ttft_ms: attempt.placed.predictedTtftMs,
      ...(byIds === null ? { replayed: true } : {}),
      ...(byIds === null || byIds.dropped === 0 ? {} : { dropped_tokens: byIds.dropped }),
    })
    const text = begin()
    if (text !== '') yield encoder.encode(text)
  }

  /** The reader of the next engine's events. `begin` returns what the client gets before them. */
  #segmentOf({ byIds, tokens }: Handover): { readonly segment: Segment; begin(): string } {
    const state = this.#state
    if (byIds === null) {
      // The client has no output yet, so it gets that of this engine as it is.
      if (!state.hasOutput) state.record.keepIds(0)
      if (state.head === null) return { segment: new FirstSegment(state), begin: () => '' }
      return { segment: new RepeatedSegment(state), begin: () => '' }
    }
    state.byIds = true
    const segment = new ContinuedSegment(state, byIds.window)
    const checked = new CheckedSegment(segment, state, { tokens, calls: byIds.calls })
    return { segment: checked, begin: () => segment.send(byIds.pending) }
  }

  /** Sends the error event and breaks the connection. */
  async *#truncate(reason: NotContinued, failure: AttemptFailure): AsyncGenerator<Uint8Array, boolean> {
    const { attempt } = this.#parts
    this.#note(reason)
    attempt.ports.log.warn('stream_not_continued', {
      id: attempt.exchange.id,
      cluster: attempt.placed.route.cluster.id,
      engine: this.#failed.at(-1)?.engine.id,
      reason,
    })
    this.#end('engine_failed')
    // The first byte of a later engine: the client has output.
    const isLate = failure === 'first_byte_timeout' && this.#state.hasOutput
    yield errorEvent(attempt.exchange.protocol, isLate ? 'idle_timeout' : failure, {
      notContinued: reason,
      sequence: null,
    })
    await new Promise((resolve) => setTimeout(resolve, ABORT_DELAY_MS))
    throw truncationError()
  }

  async *#withHeartbeats<Value>(work: Promise<Value>): AsyncGenerator<Uint8Array, Value> {
    const { exchange, ports } = this.#parts.attempt
    const { heartbeatMs } = exchange
    if (heartbeatMs === 0) return await work
    const timers = timersOf(exchange.scope, ports)
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
    part.reader.cancel()
    part.relay.release(part.end ?? clientGoneEnd, part.segment.usage)
    this.#end(abortReason(this.#parts.attempt.exchange.scope))
  }

  #end(result: Result): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#silence?.end()
    this.#dropRequest()
    const { usage, record } = this.#state
    const { exchange, placed } = this.#parts.attempt
    const { promptTokens, completionTokens } = usage ?? wholeUsage(this.#state, record.tokens)
    exchange.used?.({ promptTokens: promptTokens || placed.promptTokens, outputTokens: completionTokens })
    this.#parts.relay.finish(result, usage, this.#failed)
  }
}

/** The client left during the handover. */
function abandoned(result: HandoverResult | NotContinued): Error {
  if (typeof result !== 'string') abandon(result)
  return truncationError()
}

function abandon(result: HandoverResult): void {
  if (result.kind !== 'moved') return
  const { answer, attempt } = result
  answer.discard()
  const released = attempt.placed.booking.release(endedAs('abandoned'))
  if (released !== null) attempt.exchange.scope.background(released)
}

const BEAT: unique symbol = Symbol('heartbeat')
