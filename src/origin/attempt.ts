/** One attempt: one request to one engine, up to the point where its answer is the client's or another engine may try. */
import type { Result } from '../core/cluster/contract.ts'
import { Failure } from '../failure.ts'
import { OriginError, type EngineTarget, type OriginAnswer } from '../ports.ts'
import { ask } from './ask.ts'
import { failedInside, type AttemptFailed, type Deal } from './attempt-failed.ts'
import { blamed } from './disagg/blame.ts'
import { handOver } from './disagg/hand-over.ts'
import { wholeLeg } from './disagg/last-leg.ts'
import { goneAs } from './gone.ts'
import { headerOf } from './headers.ts'
import { Streaming } from './streaming.ts'
import { passedOthers } from './via.ts'

/**
 * Resolves with the answer to pass on, or with why another engine should try. Throws only when nobody should. The booking
 * is released on every path. Whole, split and staged placements differ only in what happens before the last leg.
 */
export async function attempt(deal: Deal): Promise<Response | AttemptFailed> {
  const { exchange, ports, placed } = deal
  const { engine } = placed
  let refusal: OriginAnswer | null = null
  let holder: EngineTarget | undefined
  try {
    const handed = placed.placement.kind === 'whole' ? { last: wholeLeg(deal) } : await handOver(deal)
    if ('failed' in handed) return giveUp(deal, handed.failed)
    const dispatchedAt = ports.now()
    if ('refusal' in handed) {
      refusal = handed.refusal
      return new Streaming(deal, { answer: refusal, dispatchedAt, engine: handed.engine, last: null }).pass(false)
    }
    const { last } = handed
    holder = last.holder
    const outcome = await ask(deal, last, (answer, early) => {
      const failed = early ? null : failedInside(answer, engine)
      return failed ?? new Streaming(deal, { answer, dispatchedAt, engine, last }).pass(early)
    })
    return 'failure' in outcome ? giveUp(deal, await blamed(deal, outcome, holder)) : outcome
  } catch (error) {
    refusal?.discard()
    if (exchange.signal.aborted) {
      const result = goneAs(exchange.scope)
      release(deal, result, null)
      if (result === 'abandoned') throw new Failure('draining', 'This gateway is shutting down.')
      throw new Failure('client_gone', 'The client closed the request.', { cause: error })
    }
    if (error instanceof OriginError) {
      ports.log.warn('attempt_failed', { id: exchange.id, cluster: placed.route.cluster.id, engine: engine.id, failure: error.failure, error })
      return giveUp(deal, await blamed(deal, { engine, failure: error.failure, status: null }, holder))
    }
    release(deal, 'abandoned', null)
    throw error
  }
}

function giveUp(deal: Deal, failed: AttemptFailed): AttemptFailed {
  const isExcused = failed.failure === 'loop' && metAgain(deal, failed)
  if (failed.failure !== 'loop') tellAnswered(deal, failed)
  release(deal, isExcused ? 'abandoned' : 'engine_failed', isExcused ? null : failed)
  return failed
}

/** What came without any answer has been told with its cause. Busy is no news: a full fleet says it to each request. */
function tellAnswered({ exchange, ports, placed }: Deal, { engine, failure, status }: AttemptFailed): void {
  if (status === null) return
  const next = status === 401 ? { next: "It does not take the gateway's key: give the engine its `key`." } : {}
  ports.log[failure === 'busy' ? 'debug' : 'warn']('attempt_failed', { id: exchange.id, cluster: placed.route.cluster.id, engine: engine.id, failure, status, ...next })
}

/**
 * Says whose address it is. true: the request had passed other gateways before this one, or a client says so. What it met may be
 * one of those, and the engine well for all who come here first: no circuit counts it. Who has passed none would not be served either.
 */
function metAgain({ exchange, ports, placed }: Deal, { engine: { id, url } }: AttemptFailed): boolean {
  ports.log.warn('loop_found', { id: exchange.id, cluster: placed.route.cluster.id, engine: id, url, next: 'It leads back to a gateway that the request has passed. Configure the address of the engine itself.' })
  return passedOthers(headerOf(exchange.headers, 'via'))
}

function release({ exchange, placed, stages }: Deal, result: Result, failed: AttemptFailed | null): void {
  const ending = { result, failure: failed?.failure ?? null, failedEngine: failed?.engine.id ?? null, status: failed?.status ?? null, usage: null, outputEvents: 0, stages: stages.snapshot() }
  const telling = placed.booking.release(ending)
  if (telling !== null) exchange.scope.background(telling)
}
