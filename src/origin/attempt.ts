/** One attempt: one request to one engine, up to the point where its answer is the client's or another engine may try. */
import type { AttemptFailure, Result } from '../core/cluster/contract.ts'
import { Failure } from '../failure.ts'
import { OriginError, type OriginAnswer, type PassEnd, type Ports, type Reply } from '../ports.ts'
import { cutEvent } from './cut-event.ts'
import type { Exchange } from './exchange.ts'
import { headersForClient } from './headers.ts'
import type { Placed } from './place.ts'
import { serverTiming, type Stages } from './stages.ts'

export interface Deal {
  readonly exchange: Exchange
  readonly ports: Ports
  readonly placed: Placed
  readonly stages: Stages
}

/** Another engine may try. */
export interface AttemptFailed {
  readonly failure: AttemptFailure
  /** The engine's status, when it answered at all. */
  readonly status: number | null
}

/** An engine's error body is read no further than this to learn whether it is merely busy. */
const BUSY_BODY_BYTES = 16 * 1024

/** Resolves with the answer to pass on, or with why another engine should try. Throws only when nobody should. The booking is released on every path. */
export async function attempt(deal: Deal): Promise<Response | AttemptFailed> {
  const { exchange, ports, placed } = deal
  const dispatchedAt = ports.now()
  let answer: OriginAnswer | null = null
  try {
    answer = await send(deal)
    if (answer.sse) deal.stages.add('connect', ports.now() - dispatchedAt)
    const failed = await rejected(answer)
    if (failed !== null) return giveUp(deal, failed)
    const early = await firstByte(answer, exchange)
    const stream = new Streaming(deal, answer, dispatchedAt)
    return stream.pass(early)
  } catch (error) {
    answer?.discard()
    if (exchange.signal.aborted) {
      release(deal, 'client_gone', null)
      throw new Failure('client_gone', 'The client closed the request.', { cause: error })
    }
    if (error instanceof OriginError) {
      ports.log.warn('attempt_failed', { id: exchange.id, cluster: placed.route.cluster.id, engine: placed.engine.id, failure: error.failure, error })
      return giveUp(deal, { failure: error.failure, status: null })
    }
    release(deal, 'abandoned', null)
    throw error
  }
}

async function send({ exchange, ports, placed }: Deal): Promise<OriginAnswer> {
  const { limits } = placed.route.pool
  return ports.origin.send({
    target: placed.engine,
    method: exchange.method,
    path: exchange.path,
    headers: exchange.headers,
    body: exchange.body(placed.route),
    connectMs: limits.connectMs,
    firstByteMs: limits.firstByteMs,
    signal: exchange.signal,
  })
}

/** An answer that is not for the client: the engine failed, or is full. 501 is about the request, so it goes on. */
async function rejected(answer: OriginAnswer): Promise<AttemptFailed | null> {
  const { status } = answer
  if (status >= 200 && status < 300) return null
  if ((status >= 400 && status < 500) || status === 501) return null
  // A redirect would send the client past the gateway: no engine has reason to answer with one.
  if (status < 400) {
    answer.discard()
    return { failure: 'malformed', status }
  }
  if (status !== 503) {
    answer.discard()
    return { failure: 'status_5xx', status }
  }
  // vLLM's admission limit: "The engine is currently busy and cannot accept new requests."
  const body = new TextDecoder().decode(await answer.read(BUSY_BODY_BYTES))
  return { failure: body.includes('currently busy') ? 'busy' : 'status_5xx', status }
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
  const ending = { result, failure: failed?.failure ?? null, status: failed?.status ?? null, usage: null, outputEvents: 0, stages: stages.snapshot() }
  exchange.scope.background(placed.booking.release(ending))
}

/** An answer on its way to the client. */
class Streaming {
  readonly #deal: Deal
  readonly #answer: OriginAnswer
  readonly #dispatchedAt: number

  constructor(deal: Deal, answer: OriginAnswer, dispatchedAt: number) {
    this.#deal = deal
    this.#answer = answer
    this.#dispatchedAt = dispatchedAt
  }

  /** `early`: the first byte is still to come. */
  pass(early: boolean): Response {
    if (!early) this.#firstByte()
    return this.#answer.pass(this.#reply())
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
      'x-firstlight-engine', placed.engine.id,
      'x-firstlight-cluster', placed.route.cluster.id,
      'x-firstlight-policy', placed.policy,
      'x-firstlight-decision', [exchange.id, ...placed.notes].join('; '),
      'server-timing', serverTiming(stages.snapshot()),
    ] // prettier-ignore
  }

  #firstByte(): void {
    const { exchange, ports, placed, stages } = this.#deal
    // The first byte of an answer that is no stream comes with its last: it says nothing about the first token.
    if (!this.#answer.sse) return
    const now = ports.now()
    stages.add('first_byte', now - this.#dispatchedAt)
    stages.add('ttft', now - exchange.receivedAt)
    placed.booking.firstToken(stages.snapshot())
  }

  #settled(end: PassEnd): void {
    const { exchange, ports, placed, stages } = this.#deal
    const { status } = this.#answer
    const result = resultOf(end, status)
    const ending = { result, failure: end.failure, status, usage: end.usage, outputEvents: end.events, stages: stages.snapshot() }
    exchange.scope.background(placed.booking.release(ending))
    if (end.end === 'engine_cut') {
      ports.log.warn('stream_cut', { id: exchange.id, cluster: placed.route.cluster.id, engine: placed.engine.id, failure: end.failure, bytes: end.bytes })
    }
    if (end.usage !== null) exchange.onUsage?.(placed.route, end.usage)
    if (status < 300) exchange.onServed?.({ cluster: placed.route.cluster.id, engine: placed.engine.id }, end.responseId ?? null)
  }
}

function resultOf(end: PassEnd, status: number): Result {
  if (end.end === 'client_gone') return 'client_gone'
  if (end.end === 'engine_cut') return 'engine_failed'
  return status >= 300 ? 'engine_refused' : 'complete'
}
