/** The last leg's request, and the moment its answer begins. */
import type { Alarms, Beginning, OriginAnswer, OriginRequest } from '../ports.ts'
import { isAnswer, rejected, type AttemptFailed, type Deal } from './attempt-failed.ts'
import type { LastLeg } from './disagg/last-leg.ts'
import { timers } from './timers.ts'

/** Takes an answer that has begun, or (`early`) one whose client is to be kept warm from here; says what became of it. */
export type Begun = (answer: OriginAnswer, early: boolean) => Response | AttemptFailed

/**
 * Asks the engine and waits for its first byte. `begun` is called at once when it is there, in the same tick where the
 * platform can. Rejects with an OriginError, with the signal's reason, or with what `begun` throws.
 */
export function ask(deal: Deal, last: LastLeg, begun: Begun): Promise<Response | AttemptFailed> {
  const { origin } = deal.ports
  const request = requestOf(deal, last)
  if (origin.begin === undefined) return askInSteps(deal, request, begun)
  return new Promise((resolve, reject) => origin.begin!(request, new Waiting({ deal, engine: request.target, begun, resolve, reject })))
}

function requestOf({ exchange, ports, placed }: Deal, { target, path, body }: LastLeg): OriginRequest {
  const { connectMs, firstByteMs } = placed.route.pool.limits
  const headers = target.isGateway === true && exchange.forGateway !== undefined ? [...exchange.headers, ...exchange.forGateway] : exchange.headers
  return { target, method: exchange.method, path, headers, body, connectMs, firstByteMs, signal: exchange.signal, alarms: exchange.scope.alarms ?? ports.alarms }
}

interface WaitingParts {
  readonly deal: Deal
  readonly engine: OriginRequest['target']
  readonly begun: Begun
  resolve(outcome: Response | AttemptFailed): void
  reject(error: unknown): void
}

class Waiting implements Beginning {
  readonly patienceMs: number
  readonly #parts: WaitingParts
  readonly #dispatchedAt: number

  constructor(parts: WaitingParts) {
    this.#parts = parts
    this.patienceMs = parts.deal.exchange.heartbeatMs
    this.#dispatchedAt = parts.deal.ports.now()
  }

  head(answer: OriginAnswer): boolean {
    const { deal, engine, resolve, reject } = this.#parts
    noteHead(deal, answer, this.#dispatchedAt)
    if (isAnswer(answer.status, engine)) return true
    // No status that is an answer: there is always a failure in it.
    rejected(answer, engine).then((failed) => resolve(failed!), (error: unknown) => giveUp(answer, error, reject))
    return false
  }

  begun(answer: OriginAnswer, early: boolean): void {
    const { begun, resolve, reject } = this.#parts
    try {
      resolve(begun(answer, early))
    } catch (error) {
      giveUp(answer, error, reject)
    }
  }

  failed(error: unknown): void {
    this.#parts.reject(error)
  }
}

function giveUp(answer: OriginAnswer, error: unknown, reject: (error: unknown) => void): void {
  answer.discard()
  reject(error)
}

async function askInSteps(deal: Deal, request: OriginRequest, begun: Begun): Promise<Response | AttemptFailed> {
  const { exchange, ports } = deal
  const dispatchedAt = ports.now()
  const answer = await ports.origin.send(request)
  try {
    noteHead(deal, answer, dispatchedAt)
    const failed = await rejected(answer, request.target)
    return failed ?? begun(answer, await firstByte(answer, exchange.heartbeatMs, request.alarms))
  } catch (error) {
    answer.discard()
    throw error
  }
}

/** The head of an answer that is no stream comes with its body: it says nothing about the connection. */
function noteHead({ stages, ports }: Deal, answer: OriginAnswer, dispatchedAt: number): void {
  if (answer.sse) stages.add('connect', ports.now() - dispatchedAt)
}

/** Waits for the first byte. true: it is still to come, and the client is to be kept warm by heartbeats from here. */
function firstByte(answer: OriginAnswer, patienceMs: number, alarms: Alarms = timers): Promise<boolean> {
  const came = answer.firstByte()
  if (patienceMs <= 0 || !answer.sse || answer.status >= 300) return came.then(() => false)
  return new Promise((resolve, reject) => {
    const alarm = alarms.set(patienceMs, () => resolve(true))
    came
      .then(() => resolve(false))
      // Once patience is over the reply hears of failures.
      .catch(reject)
      .finally(() => alarm.cancel())
  })
}
