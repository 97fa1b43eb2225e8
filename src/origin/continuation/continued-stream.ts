/** A stream that goes on at another engine if its engine fails. See docs/continuation.md. */
import { isRepeatable, type Continuable, type NotContinued } from '../../core/continuation/continuable.ts'
import { OutputRecord } from '../../core/continuation/output-record.ts'
import { endedAs, type AttemptFailure, type Result, type Usage } from '../../core/contract/outcome.ts'
import { type OriginAnswer, OriginError } from '../../ports/origin.ts'
import type { RelayOptions, RelayResult } from '../../ports/relay.ts'
import type { PoolDigests } from '../digests/pool-digests.ts'
import type { AttemptContext, FailedOutcome } from '../attempt-context.ts'
import { abortReason } from '../abort-reason.ts'
import { headersInit } from '../headers.ts'
import { HEARTBEAT } from '../../protocols/stream/event.ts'
import { hasOtherEngine } from '../pool-route.ts'
import { AnswerStart } from '../relay/answer-start.ts'
import { truncationError } from '../relay/broken-end.ts'
import { PullRelay } from '../relay/pull-relay.ts'
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
import { DrainWatch } from './drain-watch.ts'
import { FirstSegment } from './first-segment.ts'
import { KeptRequest } from './kept-request.ts'
import { SilenceWatch } from './silence-watch.ts'
import { newState, type StreamState } from './stream-state.ts'
import type { Segment } from './segment.ts'

/** The relay of the request, whose record ends with the stream. */
export interface RequestRelay extends SegmentRelay {
  finish(result: Result, usage: Usage | null, failed: readonly FailedOutcome[]): void
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
  probeSoon(engine: FailedOutcome['engine']): void
  /** Called once, when the request will not be sent again. `once`: it was not repeated. */
  dropRequest(once: boolean): void
  /** Makes the relay of a further engine. */
  relayOf(handover: Handover): SegmentRelay
}

const encoder = new TextEncoder()

/** Relays a response whose stream may be continued. */
export function relayContinued(parts: ContinuedParts): Response {
  const options = parts.relay.options()
  const source = new ContinuedSource(parts, options)
  const relay = new PullRelay({
    options: source.clientOptions(options),
    sse: true,
    // The relays of the parts read the events.
    reads: false,
    start: new AnswerStart({ ...options, sse: true }, { protocol: options.protocol, isJson: false, isStream: true }),
    held: [],
    ended: false,
    now: parts.attempt.ports.now,
    next: () => source.next(),
    stop: () => source.stop(),
  })
  return new Response(relay.stream(), { status: options.status, headers: headersInit(options.headers) })
}

/**
 * `moving`: one part has ended, and the next one has not begun. `over`: no part follows. `left`: the client has
 * disconnected.
 */
type Stage = 'passing' | 'moving' | 'over' | 'left'

/** null: the stream is complete. */
type PartFailure = AttemptFailure | 'drained' | 'wedged' | null

/** Events of one engine after another. A relay moves them to the client: it has heartbeats, error event and end. */
class ContinuedSource {
  readonly #parts: ContinuedParts
  readonly #state: StreamState
  readonly #failed: FailedOutcome[]
  #part: Part
  /** What the client gets between two parts. */
  readonly #between: Uint8Array[] = []
  #stage: Stage = 'passing'
  /** Why no other engine continues the stream. null: one may. */
  #notContinued: NotContinued | null = null
  /** Continuations after a failure. Moves off engines that drain are not limited. */
  #continued = 0
  readonly #drain: DrainWatch
  readonly #silence: SilenceWatch | null
  /** The handover of a silent stream: its engine's bytes wait for the result. null: none. */
  #rescue: Promise<HandoverResult | null> | null = null
  /** Bookings of this request so far. */
  #booked: number
  readonly #request: KeptRequest

  constructor(parts: ContinuedParts, options: RelayOptions) {
    this.#parts = parts
    const longest = Math.max(0, ...parts.request.stops.map(({ length }) => length))
    const form = parts.attempt.exchange.protocol.asCompletion!
    this.#state = newState(parts.request, form, new OutputRecord(longest))
    this.#failed = [...parts.attempt.earlier]
    this.#request = new KeptRequest({
      now: parts.attempt.ports.now,
      replayMs: parts.request.repeats ? parts.replayMs : null,
      dropRequest: parts.dropRequest,
    })
    this.#drain = new DrainWatch(parts.digests, () => !this.#state.finished && this.#method().reason === null)
    this.#booked = parts.attempt.race?.booked ?? parts.attempt.earlier.length + 1
    const { attempt, answer, relay } = parts
    this.#part = openPart({ attempt, answer, relay, segment: new FirstSegment(this.#state) }, options)
    this.#silence = this.#watchSilence()
  }

  /** Options of the relay to the client. Limits for engines are those of the parts. */
  clientOptions(options: RelayOptions): RelayOptions {
    const { protocol } = this.#parts.attempt.exchange
    const { onResponseId: _onResponseId, ...rest } = options
    return {
      ...rest,
      observe: false,
      hideUsage: false,
      checksEnd: false,
      idleMs: 0,
      onEvents: () => Infinity,
      onFirstByte: () => {},
      truncationEvent: (failure) => errorEvent(protocol, failure, { notContinued: this.#notContinued, sequence: null }),
      settled: ({ end }) => this.#finish(end),
    }
  }

  get #isOver(): boolean {
    return this.#stage === 'over' || this.#hasLeft
  }

  get #hasLeft(): boolean {
    return this.#stage === 'left'
  }

  /** Whole events for the client; null: the end. Rejects with an OriginError if the stream is truncated. */
  async next(): Promise<Uint8Array | null> {
    try {
      for (;;) {
        const piece = this.#between.shift()
        if (piece !== undefined) return piece
        if (this.#isOver) return null
        const next = await this.#nextOfPart()
        if (next instanceof Uint8Array) return next
        if (this.#hasLeft) throw truncationError()
        this.#stage = 'moving'
        await this.#afterPart(next)
        if (this.#stage === 'moving') this.#stage = 'passing'
      }
    } catch (error) {
      // It was truncated, and its part has ended.
      if (this.#stage === 'over') throw error
      if (this.#hasLeft || this.#parts.attempt.exchange.signal.aborted) {
        this.stop()
        throw truncationError()
      }
      this.#release('reset')
      this.#over()
      throw new OriginError('reset', 'the stream could not be continued', { cause: error })
    }
  }

  /** Ends the part of the engine: the client has disconnected. Has effect once. */
  stop(): void {
    if (this.#isOver) return
    this.#stage = 'left'
    const part = this.#part
    part.reader.cancel()
    part.relay.release(part.end ?? clientGoneEnd, part.segment.usage)
    this.#over()
  }

  async #afterPart(failure: PartFailure): Promise<void> {
    if (failure === 'wedged') return this.#leaveWedged()
    if (failure !== null && !this.#state.finished)
      return failure === 'drained' ? this.#leaveDraining() : this.#moveAfterFailure(failure)
    if (failure !== null) {
      this.#send(closingRecords(this.#state))
      if (this.#part.segment.failure !== null) this.#release(failure === 'drained' ? 'reset' : failure)
    }
    this.#complete()
  }

  #send(text: string): void {
    if (text !== '') this.#between.push(encoder.encode(text))
  }

  /** The next bytes that one engine's events give, or the failure that ended them. */
  async #nextOfPart(): Promise<Uint8Array | PartFailure> {
    const part = this.#part
    while (part.segment.failure === null) {
      if (this.#drain.mustLeave(part.attempt)) return 'drained'
      const chunk = await readPart(part)
      if (this.#rescue !== null && chunk !== HEARTBEAT && (await this.#rescue) !== null) return 'wedged'
      if (chunk === null) break
      // A heartbeat of the part's relay is no event of the engine. It only wakes this loop.
      if (chunk === HEARTBEAT) continue
      const passed = passEvents(part, chunk)
      const out = passed instanceof Promise ? await passed : passed
      if (this.#state.hasOutput) this.#request.dropIfLate()
      if (out !== null) return out
    }
    const { failure } = part.segment
    if (failure !== null) part.reader.cancel()
    if (part.end?.end === 'client_gone' && failure === null) this.stop()
    const isWhole = failure === null && this.#state.done
    if (isWhole && part.end?.end === 'engine_truncated') part.end = { ...part.end, end: 'complete', failure: null }
    return failure ?? part.end?.failure ?? (isWhole ? null : 'reset')
  }

  /** Moves the stream to another engine, or ends it if its output is complete. Throws if it is truncated. */
  async #moveAfterFailure(failure: AttemptFailure): Promise<void> {
    this.#fail(failure)
    const reason = this.#continued >= this.#parts.max ? 'attempts' : this.#method().reason
    this.#continued++
    const result = reason === null ? await this.#handOver('failed') : reason
    if (this.#hasLeft) throw abandoned(result)
    if (typeof result === 'string') throw this.#truncated(result, failure)
    if (result.kind === 'refused') {
      this.#failed.splice(0, Infinity, ...result.failed)
      throw this.#truncated(result.reason, failure)
    }
    this.#goOn(result)
  }

  #goOn(result: Exclude<HandoverResult, { kind: 'refused' }>): void {
    if (result.kind === 'moved') return this.#begin(result)
    this.#send(finishRecords(this.#state, result))
    this.#note('finished')
    this.#complete()
  }

  /** null: no other engine could take the stream. */
  #watchSilence(): SilenceWatch | null {
    const { exchange, ports, placed } = this.#parts.attempt
    if (exchange.pinned !== null || !hasOtherEngine(placed.route, placed.engine)) return null
    return new SilenceWatch({
      timers: timersOf(exchange.scope, ports),
      now: ports.now,
      silentSince: () => (this.#stage === 'moving' ? null : this.#part.waitingSince),
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

  async #leaveWedged(): Promise<void> {
    const result = (await this.#rescue)!
    this.#rescue = null
    if (this.#hasLeft) throw abandoned(result)
    this.#part.relay.release({ ...clientGoneEnd, end: 'lapsed' }, null)
    this.#part.end = null
    this.#goOn(result as Exclude<HandoverResult, { kind: 'refused' }>)
  }

  /** Moves the stream off an engine that drains. It stays there if no other engine takes it. */
  async #leaveDraining(): Promise<void> {
    const part = this.#part
    const result = await this.#handOver('drains')
    if (this.#hasLeft) throw abandoned(result)
    if (result.kind !== 'moved') {
      // Other reasons last as long as this part.
      const isFull = result.kind === 'refused' && result.reason === 'no_engine'
      return this.#drain.stayed(part.attempt.ports.now(), isFull)
    }
    part.reader.cancel()
    part.relay.release({ ...clientGoneEnd, end: 'lapsed' }, null)
    this.#begin(result)
  }

  /** Ends the booking of the engine that failed. */
  #fail(failure: AttemptFailure): void {
    const { engine } = this.#part.attempt.placed
    if (this.#state.hasOutput) this.#request.dropIfLate()
    this.#release(failure)
    this.#failed.push({ engine, failure, status: null })
    this.#parts.probeSoon(engine)
  }

  #release(failure: AttemptFailure): void {
    const part = this.#part
    part.relay.release(truncatedEnd(part.end, failure), part.segment.usage)
    part.end = null
  }

  /** How the stream can be continued from here. `reason`: why the output forbids it; null: it does not. */
  #method(): { readonly how: 'ids' | 'replay'; readonly reason: NotContinued | null } {
    const { record, barrier, byIds, request, hasOutput } = this.#state
    if (!hasOutput && this.#request.isKept) return { how: 'replay', reason: null }
    if (barrier !== null && isRepeatable(barrier) && request.repeats && !byIds)
      return { how: 'replay', reason: this.#request.isKept ? null : 'replay_too_long' }
    return { how: 'ids', reason: barrier ?? (record.promptIds === null ? 'no_token_ids' : null) }
  }

  async #handOver(cause: HandoverCause): Promise<HandoverResult> {
    const { digests, probeSoon } = this.#parts
    const { attempt } = this.#part
    const { how } = this.#method()
    const failed = this.#failed
    const input = { attempt, state: this.#state, digests, cause, how, booked: this.#booked, failed, probeSoon }
    const moving = handOver(input)
    // On Workers, a client disconnect would otherwise end the JavaScript before the new booking is released.
    attempt.exchange.scope.background(moving.catch(() => undefined))
    const result = await moving
    this.#booked += result.booked
    return result
  }

  /** Starts to pass the events of the next engine. */
  #begin(handover: Handover): void {
    const { attempt, answer, byIds, tokens } = handover
    const { silentMs } = this.#part
    const from = this.#part.attempt.placed.engine.id
    this.#request.moved()
    this.#drain.moved()
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
    this.#send(begin())
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

  /** Ends the stream, and returns the failure for the client. */
  #truncated(reason: NotContinued, failure: AttemptFailure): OriginError {
    const { attempt } = this.#parts
    this.#note(reason)
    this.#notContinued = reason
    attempt.ports.log.warn('stream_not_continued', {
      id: attempt.exchange.id,
      cluster: attempt.placed.route.cluster.id,
      engine: this.#failed.at(-1)?.engine.id,
      reason,
    })
    this.#over()
    return new OriginError(failure, `no other engine continues the stream: ${reason}`)
  }

  #note(result: string): void {
    const { record } = this.#parts.attempt.exchange
    record.continuations = [...(record.continuations ?? []), result]
  }

  #complete(): void {
    const { relay, end, segment } = this.#part
    if (end !== null) relay.release(end, segment.usage)
    this.#over()
  }

  #over(): void {
    if (!this.#hasLeft) this.#stage = 'over'
    this.#silence?.end()
    this.#request.drop()
  }

  /** Ends the record of the request. */
  #finish(end: RelayResult['end']): void {
    const { usage, record } = this.#state
    const { exchange, placed } = this.#parts.attempt
    const { promptTokens, completionTokens } = usage ?? wholeUsage(this.#state, record.tokens)
    exchange.record.used = { promptTokens: promptTokens || placed.promptTokens, outputTokens: completionTokens }
    this.#parts.relay.finish(resultOf(end, exchange), usage, this.#failed)
  }
}

function resultOf(end: RelayResult['end'], { scope }: AttemptContext['exchange']): Result {
  if (end === 'client_gone') return abortReason(scope)
  return end === 'complete' ? 'complete' : 'engine_failed'
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
