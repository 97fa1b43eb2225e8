/** Turns an engine's response into the client's: headers, first token, progress and end. */
import type { NotContinued } from '../../core/continuation/continuable.ts'
import type { StageTimes } from '../../core/contract/stages.ts'
import type { AttemptFailure, Outcome, Result, Usage } from '../../core/contract/outcome.ts'
import type { UsedTokens } from '../../core/limits/used-tokens.ts'
import { abortedUse, outputPace } from './aborted-use.ts'
import { usedTokens } from '../../protocols/reported-usage.ts'
import { PAYLOAD_VERSION } from '../../core/contract/payload-version.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { OriginAnswer } from '../../ports/origin.ts'
import type { RelayOptions, RelayResult } from '../../ports/relay.ts'
import type { AttemptContext, FailedOutcome } from '../attempt-context.ts'
import { relayContinued, type RequestRelay } from '../continuation/continued-stream.ts'
import type { FinalLeg } from '../disagg/final-leg.ts'
import { abortReason } from '../abort-reason.ts'
import { endExchange } from '../exchange.ts'
import { asEventStream, headerOf, headersForClient, isEncoded } from '../headers.ts'
import { knownEngines } from '../known-engines.ts'
import { serverTiming } from '../stage-timer.ts'
import { type AnswerTransform, relayTransformed } from './answer-transform.ts'
import type { Renaming } from './requested-model.ts'
import { OutputBlocks } from './output-blocks.ts'
import { OutputLength } from './output-length.ts'
import { TokensPerEvent } from './tokens-per-event.ts'
import { errorEvent } from './truncation-event.ts'

/**
 * Another gateway sends heartbeats itself, and a client needs only one per interval. This gateway sends them later, in
 * case the other one has none.
 */
const BEHIND_GATEWAY = 1.25

interface RelayInput {
  readonly answer: OriginAnswer
  readonly dispatchedAt: number
  /** The engine that sent the answer. */
  readonly engine: EngineTarget
  /** null: the answer is the error of an earlier leg. */
  readonly finalLeg: FinalLeg | null
}

/** Learned per process or isolate. The entries end with the engines of a configuration. */
const tokensPerEvent = new TokensPerEvent()

const outputLength = new OutputLength()

/** One response on its way to the client, with its booking and its record. */
export class AnswerRelay implements RequestRelay {
  readonly #attempt: AttemptContext
  readonly #answer: OriginAnswer
  readonly #dispatchedAt: number
  readonly #engine: EngineTarget
  readonly #notes: readonly string[]
  readonly #transform: AnswerTransform | null
  /** Why the stream cannot be continued; null: it can, or nothing would. */
  #notContinued: NotContinued | null = null
  #hasBegun = false
  #scope: RelayOptions['scope']

  constructor(attempt: AttemptContext, { answer, dispatchedAt, engine, finalLeg }: RelayInput) {
    this.#attempt = attempt
    this.#scope = attempt.exchange.scope
    this.#answer = answer
    this.#dispatchedAt = dispatchedAt
    this.#engine = engine
    const { notes } = attempt.placed
    // Keep the notes only: the leg itself holds the prompt in memory.
    this.#notes = finalLeg === null || finalLeg.notes.length === 0 ? notes : [...notes, ...finalLeg.notes]
    this.#transform = finalLeg?.transform ?? null
  }

  /** Records the answer. `early`: the first byte is still to come. */
  open(early: boolean): void {
    if (!early) this.#firstByte()
    this.#recordPlacement()
  }

  /** Passes the engine's bytes on. */
  pass(): Response {
    this.#dropRequest()
    return this.#answer.pass(this.options())
  }

  /** Passes the answer of a leg of another form on. null: it has the form that the client expects. */
  transformed(): Response | null {
    if (this.#transform === null || this.#answer.status >= 300) return null
    this.#dropRequest()
    return relayTransformed(this.#answer, this.options(), this.#transform)
  }

  #dropRequest(): void {
    this.#attempt.exchange.source.release?.(this.#written())
  }

  /** The response can be changed on its way to the client. */
  get isChangeable(): boolean {
    return this.#attempt.exchange.scope.delivery?.changesAnswer !== false
  }

  /** Whether the stages follow the stream. */
  takesComment(): boolean {
    const { lastComment, observe } = this.#attempt.exchange
    const takes = lastComment && observe && this.#answer.sse && this.#answer.status < 300
    if (takes) this.#detach()
    return takes
  }

  /** What replaces the model's name in the answer. null: it stays as it is. */
  renaming(): Renaming | null {
    const { requestedModel, protocol } = this.#attempt.exchange
    const isReadable = this.#answer.status < 300 && !isEncoded(this.#answer.headers)
    if (!isReadable || requestedModel === null) return null
    this.#detach()
    return { sse: this.#answer.sse, protocol, model: requestedModel }
  }

  /** Takes the client's socket away, so that the platform returns a stream that can be changed. */
  #detach(): void {
    this.#scope = { ...this.#scope, client: null }
  }

  get stages(): StageTimes {
    return this.#attempt.stages.snapshot()
  }

  /** Relays a stream that another engine can continue. null: it cannot be continued. */
  continued(): Response | null {
    const { exchange, placed, digests, probeSoon } = this.#attempt
    const { route } = placed
    const request = exchange.source.continuation?.() ?? null
    if (request === null || !this.#answer.sse || this.#answer.status >= 300) return null
    const barrier = this.#barrier()
    if (typeof request === 'string' || barrier !== null) {
      this.#notContinued = typeof request === 'string' ? request : barrier
      return null
    }
    return relayContinued({
      attempt: this.#attempt,
      request,
      answer: this.#answer,
      relay: this,
      digests,
      max: route.pool.retry.midStreamMax,
      replayMs: route.pool.retry.midStreamReplayMs,
      probeSoon: (engine) => probeSoon?.(route, engine),
      dropRequest: (once) => exchange.source.release?.(once && this.#written()),
      relayOf: ({ attempt, answer, dispatchedAt }) =>
        new AnswerRelay(attempt, { answer, dispatchedAt, engine: attempt.placed.engine, finalLeg: null }),
    })
  }

  #barrier(): NotContinued | null {
    if (this.#engine.kind === 'gateway') return 'gateway'
    return this.#transform === null ? null : 'split_answer'
  }

  /** Failed attempts and earlier legs may still be writing the body. */
  #written(): boolean {
    const { placed, earlier, race } = this.#attempt
    if (race.booked > 1) return false
    return earlier.length === 0 && placed.placement.kind === 'whole' && this.#answer.written === true
  }

  options(): RelayOptions {
    const { exchange, placed } = this.#attempt
    const { pool } = placed.route
    const output = this.#outputBlocks()
    return {
      scope: this.#scope,
      protocol: exchange.protocol,
      isEncoded: isEncoded(this.#answer.headers),
      status: this.#answer.status,
      headers: this.#headers(),
      observe: exchange.observe,
      hideUsage: exchange.hideUsage && this.#hasAddedUsage,
      heartbeatMs: placed.engine.kind === 'gateway' ? BEHIND_GATEWAY * exchange.heartbeatMs : exchange.heartbeatMs,
      writeMs: exchange.writeMs,
      idleMs: pool.limits.idleMs,
      nativeMs: pool.limits.nativeMs,
      checksEnd: this.#answer.status < 300,
      onResponseId: this.#idKeeper(),
      firstEvents: output.firstEvents,
      onEvents: (events, tokens) => {
        const { blocks, nextEvents } = output.take(events, tokens)
        placed.booking.progress(blocks)
        return nextEvents
      },
      onFirstByte: () => this.#firstByte(),
      truncationEvent: (failure, sequence) =>
        errorEvent(exchange.protocol, failure, { notContinued: this.#notContinued, sequence }),
      settled: (end) => this.#settled(end),
    }
  }

  /** Usage was requested only from an engine whose requests may have more fields. */
  get #hasAddedUsage(): boolean {
    const { origin } = this.#attempt.ports
    return knownEngines(origin).typeOf(this.#engine).addable.includes('stream_options')
  }

  #outputBlocks(): OutputBlocks {
    const { exchange, placed } = this.#attempt
    const { promptTokens, sequences } = placed
    return new OutputBlocks({
      promptTokens,
      blockTokens: placed.route.pool.blockTokens,
      sequences: sequences ?? 1,
      tokensPerEvent: tokensPerEvent.of(this.#engine, exchange.path),
    })
  }

  /** undefined: the engine does not store the answer. */
  #idKeeper(): RelayOptions['onResponseId'] {
    const { exchange, placed } = this.#attempt
    const { storage } = exchange
    if (storage === null || this.#answer.status >= 300) return undefined
    const { responses, ...names } = storage
    const { cluster, pool } = placed.route
    const place = { cluster: cluster.id, pool: pool.model, engine: placed.engine.id }
    return (id) => responses.keep(id, { ...names, ...place })
  }

  #headers(): string[] {
    const { exchange, placed, stages } = this.#attempt
    const { placement } = placed
    const { headers: received } = this.#answer
    // Another gateway reports its own engine and policy.
    const of = (name: string): string | null => (this.#engine.kind === 'gateway' ? headerOf(received, name) : null)
    const headers = headersForClient(this.#answer.sse ? asEventStream(received) : received, exchange.clientHeaders)
    // Codex gives up on a 429 without it.
    if (this.#answer.status === 429 && headerOf(received, 'retry-after') === null) headers.push('retry-after', '1')
    for (const name of exchange.protocol.errors.requestIdHeaders) headers.push(name, exchange.requestId)
    if (this.#answer.sse && headerOf(received, 'x-accel-buffering') === null) headers.push(...UNBUFFERED)
    headers.push('x-firstlight-engine', of('x-firstlight-engine') ?? this.#engine.id)
    // The prefill engine, if it is not the engine that answers.
    const prefill = placement.kind === 'whole' ? of('x-firstlight-prefill') : placement.prefill
    if (prefill !== null) headers.push('x-firstlight-prefill', prefill)
    headers.push(
      'x-firstlight-cluster',
      placed.route.cluster.id,
      'x-firstlight-policy',
      of('x-firstlight-policy') ?? placed.policy,
    )
    const notes = this.#notes
    headers.push('x-firstlight-decision', notes.length === 0 ? exchange.id : `${exchange.id}; ${notes.join('; ')}`)
    headers.push('server-timing', serverTiming(stages.snapshot()))
    return headers
  }

  #firstByte(): void {
    const { exchange, ports, placed, stages } = this.#attempt
    // The first byte of a body that is no stream comes with the last one: it is no measure of the first token.
    if (!this.#answer.sse || this.#hasBegun) return
    // The relay reports it again for an answer that had begun before.
    this.#hasBegun = true
    const now = ports.now()
    stages.add('first_byte', now - this.#dispatchedAt)
    stages.add('ttft', now - exchange.receivedAt)
    placed.booking.firstToken(stages.snapshot())
  }

  /**
   * The end was not read. If no stream of the pool is read, a clean end counts as complete: no circuit could close
   * otherwise.
   */
  get #isEndUnparsed(): boolean {
    const { exchange, placed } = this.#attempt
    const hasEnd = this.#answer.sse && exchange.protocol.stream !== null
    const isReadable = exchange.scope.delivery?.readsAnswer !== false
    return hasEnd && !exchange.observe && isReadable && placed.route.pool.observeShare > 0
  }

  /** Records which engine answers, and why. */
  #recordPlacement(): void {
    const { exchange, placed } = this.#attempt
    const { route, placement, policy, predictedTtftMs } = placed
    const { record } = exchange
    record.model = route.pool.model
    record.cluster = route.cluster.id
    record.engine = this.#engine.id
    record.prefillEngine = placement.kind === 'whole' ? null : placement.prefill
    record.placement = placement.kind
    record.policy = policy
    record.notes = this.#notes
    record.predictedTtftMs = predictedTtftMs
  }

  #settled(end: RelayResult): void {
    const ended = resultOf(end, this.#answer.status)
    const result = ended === 'client_gone' ? abortReason(this.#attempt.exchange.scope) : ended
    const usage = end.usage === null || this.#transform === null ? end.usage : this.#transform.usage(end.usage)
    if (end.end === 'engine_truncated' && this.#notContinued !== null)
      this.#attempt.exchange.record.continuations = [this.#notContinued]
    this.release(end, usage)
    this.#attempt.exchange.record.used = this.#used(end)
    this.finish(result, usage, this.#attempt.earlier)
  }

  #used({ end, reported = null, outputs = 0, failure }: RelayResult): UsedTokens | null {
    const isRefusal = this.#answer.status >= 300 || (end === 'engine_error' && failure === null && outputs === 0)
    if (isRefusal) return NOTHING_USED
    if (reported === null && !this.#answer.sse) {
      // A whole answer without usage does not show how long it is.
      if (end === 'complete') return null
      if (end === 'client_gone') return abortedUse(this.#attempt, this.#engine, this.#sinceDispatchMs)
    }
    const { promptTokens } = this.#attempt.placed
    if (this.#isUnparsed) return { promptTokens, outputTokens: this.#estimatedTokens(end) ?? 0, isEstimated: true }
    return usedTokens(reported, { promptTokens, outputEvents: outputs })
  }

  /** A stream with a successful status whose events are not read. */
  get #isUnparsed(): boolean {
    const { protocol, observe } = this.#attempt.exchange
    return this.#answer.sse && protocol.stream !== null && !observe && this.#answer.status < 300
  }

  /** Output of a stream that was not read. null: unknown. */
  #estimatedTokens(end: RelayResult['end']): number | null {
    if (!this.#hasBegun) return 0
    const { exchange, placed } = this.#attempt
    return outputLength.of(this.#engine, exchange.path, {
      sequences: placed.sequences ?? 1,
      limitTokens: exchange.source.admission(placed.route).outputLimitTokens ?? Infinity,
      truncatedAtMs: end === 'complete' ? null : this.#sinceDispatchMs,
    })
  }

  get #sinceDispatchMs(): number {
    return this.#attempt.ports.now() - this.#dispatchedAt
  }

  release(end: RelayResult, usage: Usage | null): void {
    const { exchange, ports, placed, stages } = this.#attempt
    const { status } = this.#answer
    const result = resultOf(end, status)
    const failedEngine = end.failure === null && status < 300 ? null : this.#engine.id
    if (result === 'complete' && usage !== null) {
      const { completionTokens: tokens } = usage
      if (this.#answer.sse) tokensPerEvent.learn(this.#engine, exchange.path, { tokens, events: end.events })
      else outputPace.learn(this.#engine, exchange.path, { tokens, ms: this.#sinceDispatchMs })
      const { sequences = 1 } = placed
      outputLength.learn(this.#engine, exchange.path, { tokens, sequences, ms: this.#sinceDispatchMs })
    }
    const outcome: Outcome = {
      version: PAYLOAD_VERSION,
      result: result === 'client_gone' ? abortReason(exchange.scope) : result,
      failure: end.failure,
      failedEngine,
      status,
      usage,
      outputEvents: end.events,
      stages: stages.snapshot(),
      estimatedTokens: this.#isUnparsed ? this.#estimatedTokens(end.end) : undefined,
      endUnseen: result === 'complete' && this.#isEndUnparsed ? true : undefined,
    }
    const released = placed.booking.release(outcome)
    if (released !== null) exchange.scope.background(released)
    if (end.end !== 'engine_truncated') return
    ports.log.warn('stream_truncated', {
      id: exchange.id,
      cluster: placed.route.cluster.id,
      engine: this.#engine.id,
      failure: end.failure,
      bytes: end.bytes,
      ...(this.#notContinued === null ? {} : { not_continued: this.#notContinued }),
    })
  }

  finish(result: Result, usage: Usage | null, failed: readonly FailedOutcome[]): void {
    const { exchange, ports, stages } = this.#attempt
    const failedAttempts = failed.map(failureOf)
    const end = { status: this.#answer.status, result, failedAttempts, stages: stages.snapshot(), usage }
    endExchange(exchange, end, ports.now())
  }
}

/** nginx would hold a stream back until its buffer is full. */
const UNBUFFERED = ['x-accel-buffering', 'no'] as const

const NOTHING_USED: UsedTokens = { promptTokens: 0, outputTokens: 0 }

const failureOf = ({ failure }: FailedOutcome): AttemptFailure => failure

function resultOf(end: RelayResult, status: number): Result {
  if (end.end === 'client_gone' || end.end === 'lapsed') return end.end
  if (end.end === 'engine_truncated') return 'engine_failed'
  if (end.end === 'engine_error') return end.failure === null ? 'engine_refused' : 'engine_failed'
  return status >= 300 ? 'engine_refused' : 'complete'
}
