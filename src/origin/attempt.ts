/** One attempt: one request to one engine, up to the point where its answer is the client's or another engine may try. */
import type { Placement, Result } from '../core/cluster/contract.ts'
import { Failure } from '../failure.ts'
import { OriginError, type EngineTarget, type OriginAnswer, type PassEnd, type Reply } from '../ports.ts'
import { failedInside, rejected, type AttemptFailed, type Deal } from './attempt-failed.ts'
import { cutEvent } from './cut-event.ts'
import { passChanged } from './disagg/change.ts'
import { handOver } from './disagg/hand-over.ts'
import { wholeLeg, type LastLeg } from './disagg/last-leg.ts'
import type { Exchange, ExchangeEnd } from './exchange.ts'
import { headersForClient } from './headers.ts'
import { withLastComment } from './last-comment.ts'
import { serverTiming } from './stages.ts'

/**
 * Resolves with the answer to pass on, or with why another engine should try. Throws only when nobody should. The booking
 * is released on every path. Whole, split and staged placements differ only in what happens before the last leg.
 */
export async function attempt(deal: Deal): Promise<Response | AttemptFailed> {
  const { exchange, ports, placed } = deal
  let answer: OriginAnswer | null = null
  let asked = placed.engine
  try {
    const handed = placed.placement.kind === 'whole' ? { last: wholeLeg(deal) } : await handOver(deal)
    if ('failed' in handed) return giveUp(deal, handed.failed)
    const dispatchedAt = ports.now()
    if ('refusal' in handed) {
      answer = handed.refusal
      asked = handed.engine
      return new Streaming(deal, { answer, dispatchedAt, engine: asked, last: null }).pass(false)
    }
    const { last } = handed
    answer = await send(deal, last)
    if (answer.sse) deal.stages.add('connect', ports.now() - dispatchedAt)
    const failed = await rejected(answer, asked)
    if (failed !== null) return giveUp(deal, failed)
    const early = await firstByte(answer, exchange)
    const inside = early ? null : failedInside(answer, asked)
    if (inside !== null) return giveUp(deal, inside)
    return new Streaming(deal, { answer, dispatchedAt, engine: asked, last }).pass(early)
  } catch (error) {
    answer?.discard()
    if (exchange.signal.aborted) {
      release(deal, 'client_gone', null)
      throw new Failure('client_gone', 'The client closed the request.', { cause: error })
    }
    if (error instanceof OriginError) {
      ports.log.warn('attempt_failed', { id: exchange.id, cluster: placed.route.cluster.id, engine: asked.id, failure: error.failure, error })
      return giveUp(deal, { engine: asked, failure: error.failure, status: null })
    }
    release(deal, 'abandoned', null)
    throw error
  }
}

async function send({ exchange, ports, placed }: Deal, { target, path, body }: LastLeg): Promise<OriginAnswer> {
  const { limits } = placed.route.pool
  return ports.origin.send({
    target,
    method: exchange.method,
    path,
    headers: exchange.headers,
    body,
    connectMs: limits.connectMs,
    firstByteMs: limits.firstByteMs,
    signal: exchange.signal,
  })
}

/** Waits for the first byte. true: it is still to come, and the client is to be kept warm by heartbeats from here. */
async function firstByte(answer: OriginAnswer, exchange: Exchange): Promise<boolean> {
  const came = answer.firstByte()
  if (exchange.heartbeatMs <= 0 || !answer.sse || answer.status >= 300) return came.then(() => false)
  let timer: ReturnType<typeof setTimeout> | null = null
  const silence = new Promise<boolean>((resolve) => (timer = setTimeout(() => resolve(true), exchange.heartbeatMs)))
  try {
    return await Promise.race([came.then(() => false), silence])
  } finally {
    if (timer !== null) clearTimeout(timer)
    // From here the reply hears of failures.
    came.catch(() => {})
  }
}

function giveUp(deal: Deal, failed: AttemptFailed): AttemptFailed {
  release(deal, 'engine_failed', failed)
  return failed
}

function release({ exchange, placed, stages }: Deal, result: Result, failed: AttemptFailed | null): void {
  const ending = { result, failure: failed?.failure ?? null, failedEngine: failed?.engine.id ?? null, status: failed?.status ?? null, usage: null, outputEvents: 0, stages: stages.snapshot() }
  exchange.scope.background(placed.booking.release(ending))
}

interface Passing {
  readonly answer: OriginAnswer
  readonly dispatchedAt: number
  /** Whose answer it is. */
  readonly engine: EngineTarget
  /** null: a leg before the last one had the last word. */
  readonly last: LastLeg | null
}

/** An answer on its way to the client. */
class Streaming {
  readonly #deal: Deal
  readonly #answer: OriginAnswer
  readonly #dispatchedAt: number
  readonly #engine: EngineTarget
  readonly #last: LastLeg | null
  #begun = false

  constructor(deal: Deal, { answer, dispatchedAt, engine, last }: Passing) {
    this.#deal = deal
    this.#answer = answer
    this.#dispatchedAt = dispatchedAt
    this.#engine = engine
    this.#last = last
  }

  /** `early`: the first byte is still to come. */
  pass(early: boolean): Response {
    if (!early) this.#firstByte()
    const change = this.#answer.status >= 300 ? null : (this.#last?.change ?? null)
    if (this.#commented()) {
      // Without the client's socket the platform gives a stream to add to.
      const reply = { ...this.#reply(), scope: { ...this.#deal.exchange.scope, client: null } }
      const passed = change === null ? this.#answer.pass(reply) : passChanged(this.#answer, reply, change)
      return withLastComment(passed, () => this.#deal.stages.snapshot())
    }
    return change === null ? this.#answer.pass(this.#reply()) : passChanged(this.#answer, this.#reply(), change)
  }

  #commented(): boolean {
    const { lastComment, observe } = this.#deal.exchange
    return lastComment === true && observe && this.#answer.sse && this.#answer.status < 300
  }

  #reply(): Reply {
    const { exchange, placed } = this.#deal
    const { pool } = placed.route
    const observe = !exchange.stream || exchange.observe || exchange.hideUsage
    return {
      scope: exchange.scope,
      status: this.#answer.status,
      headers: this.#headers(),
      observe,
      hideUsage: exchange.hideUsage,
      heartbeatMs: exchange.heartbeatMs,
      idleMs: pool.limits.idleMs,
      endsWithDone: DONE_ENDS.test(exchange.path),
      findResponseId: exchange.onServed !== undefined,
      eventStep: pool.blockTokens,
      onEvents: (events) => placed.booking.progress(Math.floor(events / pool.blockTokens)),
      onFirstByte: () => this.#firstByte(),
      cutEvent: (failure) => cutEvent(exchange.path, failure),
      settled: (end) => this.#settled(end),
    }
  }

  #headers(): string[] {
    const { exchange, placed, stages } = this.#deal
    return [
      ...headersForClient(this.#answer.headers),
      'x-request-id', exchange.requestId,
      'x-firstlight-engine', this.#engine.id,
      ...prefillHeader(placed.placement),
      'x-firstlight-cluster', placed.route.cluster.id,
      'x-firstlight-policy', placed.policy,
      'x-firstlight-decision', [exchange.id, ...this.#notes()].join('; '),
      'server-timing', serverTiming(stages.snapshot()),
    ] // prettier-ignore
  }

  #firstByte(): void {
    const { exchange, ports, placed, stages } = this.#deal
    // The first byte of an answer that is no stream comes with its last: it says nothing about the first token.
    if (!this.#answer.sse || this.#begun) return
    // The platform says it again for an answer that had begun before it was passed.
    this.#begun = true
    const now = ports.now()
    stages.add('first_byte', now - this.#dispatchedAt)
    stages.add('ttft', now - exchange.receivedAt)
    placed.booking.firstToken(stages.snapshot())
  }

  #served(): ExchangeEnd['served'] {
    const { route, placement, policy, predictedTtftMs } = this.#deal.placed
    return { cluster: route.cluster.id, pool: route.pool.model, engine: this.#engine.id, placement, policy, notes: this.#notes(), predictedTtftMs }
  }

  #notes(): string[] {
    return [...this.#deal.placed.notes, ...(this.#last?.notes ?? [])]
  }

  #settled(end: PassEnd): void {
    const { exchange, ports, placed, stages } = this.#deal
    const { status } = this.#answer
    const result = resultOf(end, status)
    const failedEngine = end.failure === null ? null : this.#engine.id
    const ending = { result, failure: end.failure, failedEngine, status, usage: end.usage, outputEvents: end.events, stages: stages.snapshot() }
    exchange.scope.background(placed.booking.release(ending))
    if (end.end === 'engine_cut') {
      ports.log.warn('stream_cut', { id: exchange.id, cluster: placed.route.cluster.id, engine: this.#engine.id, failure: end.failure, bytes: end.bytes })
    }
    if (end.usage !== null) exchange.onUsage?.(placed.route, end.usage)
    exchange.onEnd?.({ ...ending, served: this.#served(), failedAttempts: this.#deal.earlier.map(({ failure }) => failure) })
    if (status < 300) exchange.onServed?.({ cluster: placed.route.cluster.id, engine: placed.engine.id }, end.responseId ?? null)
  }
}

/** OpenAI's older streams end in `data: [DONE]`; those of responses and messages in events of their own. */
const DONE_ENDS = /^\/v1\/(?:chat\/)?completions(?:\?|$)/

/** Who prefilled, where that was not the engine that answers. */
function prefillHeader(placement: Placement): string[] {
  return placement.kind === 'whole' || placement.prefill === null ? [] : ['x-firstlight-prefill', placement.prefill]
}

function resultOf(end: PassEnd, status: number): Result {
  if (end.end === 'client_gone') return 'client_gone'
  if (end.end === 'engine_cut') return 'engine_failed'
  return status >= 300 ? 'engine_refused' : 'complete'
}
