/** An engine's answer becomes the client's: headers, what is watched on the way, and how it ended. */
import { type AttemptFailure, type Outcome, PAYLOAD_VERSION, type Result } from '../../core/contract/contract.ts'
import type { EngineTarget, OriginAnswer, RelayResult, RelayOptions } from '../../ports.ts'
import type { AttemptFailed, AttemptContext } from '../classify.ts'
import { errorEvent, withLastComment } from './sse.ts'
import { relayTransformed, type AnswerTransform } from './transform.ts'
import type { FinalLeg } from '../disagg/legs.ts'
import { endExchange } from '../exchange.ts'
import { abortReason } from '../abort-reason.ts'
import { headerOf, headersForClient } from '../headers.ts'
import { serverTiming } from '../stage-timer.ts'

export interface RelayInput {
  readonly answer: OriginAnswer
  readonly dispatchedAt: number
  /** Whose answer it is. */
  readonly engine: EngineTarget
  /** null: a leg before the last one had the last word. */
  readonly last: FinalLeg | null
}

/** An answer on its way to the client. */
export class AnswerRelay {
  readonly #attempt: AttemptContext
  readonly #answer: OriginAnswer
  readonly #dispatchedAt: number
  readonly #engine: EngineTarget
  readonly #notes: readonly string[]
  readonly #change: AnswerTransform | null
  #begun = false

  constructor(attempt: AttemptContext, { answer, dispatchedAt, engine, last }: RelayInput) {
    this.#attempt = attempt
    this.#answer = answer
    this.#dispatchedAt = dispatchedAt
    this.#engine = engine
    const { notes } = attempt.placed
    // The leg itself holds the prompt.
    this.#notes = last === null || last.notes.length === 0 ? notes : [...notes, ...last.notes]
    this.#change = last?.change ?? null
  }

  /** `early`: the first byte is still to come. */
  pass(early: boolean): Response {
    if (!early) this.#firstByte()
    this.#recordPlacement()
    this.#attempt.exchange.begun?.(this.#written())
    const change = this.#answer.status >= 300 ? null : this.#change
    if (this.#commented()) {
      // Without the client's socket the platform gives a stream to add to.
      const reply = { ...this.#reply(), scope: { ...this.#attempt.exchange.scope, client: null } }
      const passed = change === null ? this.#answer.pass(reply) : relayTransformed(this.#answer, reply, change)
      return withLastComment(passed, () => this.#attempt.stages.snapshot())
    }
    return change === null ? this.#answer.pass(this.#reply()) : relayTransformed(this.#answer, this.#reply(), change)
  }

  /** Attempts that failed, and legs before the last, may have left writes behind that are not over. */
  #written(): boolean {
    const { placed, earlier } = this.#attempt
    return earlier.length === 0 && placed.placement.kind === 'whole' && this.#answer.written === true
  }

  #commented(): boolean {
    const { lastComment, observe } = this.#attempt.exchange
    return lastComment === true && observe && this.#answer.sse && this.#answer.status < 300
  }

  get #observed(): boolean {
    const { stream, observe, hideUsage } = this.#attempt.exchange
    return !stream || observe || hideUsage
  }

  get #endsWithDone(): boolean {
    return DONE_ENDS.test(this.#attempt.exchange.path)
  }

  #reply(): RelayOptions {
    const { exchange, placed } = this.#attempt
    const { pool } = placed.route
    return {
      scope: exchange.scope,
      status: this.#answer.status,
      headers: this.#headers(),
      observe: this.#observed,
      hideUsage: exchange.hideUsage,
      heartbeatMs: exchange.heartbeatMs,
      ...(exchange.writeMs === undefined ? {} : { writeMs: exchange.writeMs }),
      idleMs: pool.limits.idleMs,
      nativeMs: pool.limits.nativeMs,
      endsWithDone: this.#endsWithDone,
      ...this.#watchId(),
      eventStep: pool.blockTokens,
      onEvents: (events) => placed.booking.progress(Math.floor(events / pool.blockTokens)),
      onFirstByte: () => this.#firstByte(),
      cutEvent: (failure) => errorEvent(exchange.path, failure),
      settled: (end) => this.#settled(end),
    }
  }

  #watchId(): Pick<RelayOptions, 'onResponseId'> {
    const { exchange, placed } = this.#attempt
    if (exchange.onResponseId === undefined || this.#answer.status >= 300) return {}
    return {
      onResponseId: (id) => exchange.onResponseId?.({ cluster: placed.route.cluster.id, engine: placed.engine.id }, id),
    }
  }

  #headers(): string[] {
    const { exchange, placed, stages } = this.#attempt
    const { placement } = placed
    const { headers: told } = this.#answer
    // Another gateway knows which of its engines it was, and why.
    const of = (name: string): string | null => (this.#engine.isGateway === true ? headerOf(told, name) : null)
    const headers = headersForClient(told)
    headers.push(
      'x-request-id',
      exchange.requestId,
      'x-firstlight-engine',
      of('x-firstlight-engine') ?? this.#engine.id,
    )
    // Who prefilled, where that was not the engine that answers.
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
    if (exchange.cors) headers.push(...exchange.cors)
    return headers
  }

  #firstByte(): void {
    const { exchange, ports, placed, stages } = this.#attempt
    // The first byte of an answer that is no stream comes with its last: it says nothing about the first token.
    if (!this.#answer.sse || this.#begun) return
    // The platform says it again for an answer that had begun before it was passed.
    this.#begun = true
    const now = ports.now()
    stages.add('first_byte', now - this.#dispatchedAt)
    stages.add('ttft', now - exchange.receivedAt)
    placed.booking.firstToken(stages.snapshot())
  }

  /** Where nobody reads any, what seems complete is: to doubt it would leave no way to trust an engine again. */
  get #endUnseen(): boolean {
    return this.#answer.sse && !this.#observed && this.#endsWithDone && this.#attempt.placed.route.pool.observeShare > 0
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
    const { exchange, ports, placed, stages } = this.#attempt
    const { status } = this.#answer
    const ended = resultOf(end, status)
    const result = ended === 'client_gone' ? abortReason(exchange.scope) : ended
    const failedEngine = end.failure === null && status < 300 ? null : this.#engine.id
    const usage = end.usage === null || this.#change === null ? end.usage : this.#change.usage(end.usage)
    const outcome: Outcome = {
      version: PAYLOAD_VERSION,
      result,
      failure: end.failure,
      failedEngine,
      status,
      usage,
      outputEvents: end.events,
      stages: stages.snapshot(),
      ...(result === 'complete' && this.#endUnseen ? UNSEEN : {}),
    }
    const telling = placed.booking.release(outcome)
    if (telling !== null) exchange.scope.background(telling)
    if (end.end === 'engine_cut') {
      ports.log.warn('stream_cut', {
        id: exchange.id,
        cluster: placed.route.cluster.id,
        engine: this.#engine.id,
        failure: end.failure,
        bytes: end.bytes,
      })
    }
    const failedAttempts = this.#attempt.earlier.map(failureOf)
    endExchange(exchange, { status, result, failedAttempts, stages: outcome.stages, usage }, ports.now())
  }
}

const UNSEEN = { endUnseen: true }

const failureOf = ({ failure }: AttemptFailed): AttemptFailure => failure

/** OpenAI's older streams, and vLLM's of sound, end in `data: [DONE]`; those of responses and messages in events of their own. */
const DONE_ENDS = /^\/v1\/(?:(?:chat\/)?completions|audio\/trans(?:criptions|lations))(?:\?|$)/

function resultOf(end: RelayResult, status: number): Result {
  if (end.end === 'client_gone' || end.end === 'lapsed') return end.end
  if (end.end === 'engine_cut') return 'engine_failed'
  return status >= 300 ? 'engine_refused' : 'complete'
}
