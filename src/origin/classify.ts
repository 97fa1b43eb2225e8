/** What an attempt is made of, and what tells a failed one: the same for an answer and for a leg before it. */
import type { AttemptFailure } from '../core/contract/contract.ts'
import { failures } from '../failure.ts'
import type { EngineTarget, OriginAnswer, Ports } from '../ports.ts'
import type { Exchange } from './exchange.ts'
import type { AcquiredPlacement } from './acquire.ts'
import type { StageTimer } from './stage-timer.ts'

export interface AttemptContext {
  readonly exchange: Exchange
  readonly ports: Ports
  readonly placed: AcquiredPlacement
  readonly stages: StageTimer
  /** Attempts of the same request that failed before this one. */
  readonly earlier: readonly AttemptFailed[]
}

/** Another engine may try. */
export interface AttemptFailed {
  readonly engine: EngineTarget
  readonly failure: AttemptFailure
  /** The engine's status, when it answered at all. */
  readonly status: number | null
}

/** An engine's error body is read no further than this to learn whether it is merely busy. */
const BUSY_BODY_BYTES = 16 * 1024

/** How far the first event is read: an error's message fits. */
const FIRST_EVENT_BYTES = 1024
const ERROR_EVENT = /^(?:\s*:[^\n]*\n)*\s*data: ?(\{\s*"error"[^\n]*)\n/

/**
 * A stream that begins with the engine's failure. vLLM sends its head before it finds itself full, so "busy" may come
 * as the one event of a 200. Nothing of an answer has been seen: another engine may try. Errors of the request (4xx)
 * pass.
 */
export function classifyFirstEvent(answer: OriginAnswer, engine: EngineTarget): AttemptFailed | null {
  if (!answer.sse) return null
  const begun = answer.begun()
  if (!mayBeError(begun)) return null
  const found = ERROR_EVENT.exec(utf8.decode(begun.subarray(0, FIRST_EVENT_BYTES)))
  if (found === null) return null
  const status = statusOf(found[1]!)
  if (status === null || status < 500 || status === 501) return null
  answer.discard()
  return { engine, failure: found[1]!.includes(BUSY_WORDS) ? 'busy' : 'status_5xx', status }
}

const utf8 = new TextDecoder()
const ERROR_BEGINS = new TextEncoder().encode('data:{"error"')
const COLON = 58

/** Cheaper than to decode every answer's beginning: do its first bytes but the blanks begin an error event? */
function mayBeError(begun: Uint8Array): boolean {
  // Comments may come before it.
  if (begun[0] === COLON) return true
  let matched = 0
  for (let at = 0; at < begun.length; at++) {
    const byte = begun[at]!
    if (byte === ERROR_BEGINS[matched]) {
      if (++matched === ERROR_BEGINS.length) return true
    } else if (byte !== 32 && byte !== 9 && byte !== 10 && byte !== 13) return false
  }
  return false
}

function statusOf(event: string): number | null {
  try {
    const { error } = JSON.parse(event) as { error?: { code?: unknown } | null }
    // A number in some versions, its digits in others.
    return Number(error?.code) || null
  } catch {
    return null
  }
}

/** vLLM's admission limit: "The engine is currently busy and cannot accept new requests." */
const BUSY_WORDS = 'currently busy'

/**
 * For the client, whatever it says. 501 is about the request; 401 and 407 are about the gateway, whose key the engine
 * does not take.
 */
export function isClientAnswer(status: number, { isGateway = false }: Pick<EngineTarget, 'isGateway'> = {}): boolean {
  if (isGateway && status === failures.engines_full.status) return false
  return (
    (status >= 200 && status < 300) ||
    (status >= 400 && status < 500 && status !== 401 && status !== 407) ||
    status === 501
  )
}

/** null: an answer that is for the client. Else the engine failed, or is full. */
export async function classifyStatus(answer: OriginAnswer, engine: EngineTarget): Promise<AttemptFailed | null> {
  const { status } = answer
  if (isClientAnswer(status, engine)) return null
  // Another gateway has asked its engines already: it is well, and they are not to be had now.
  if (engine.isGateway === true && (status === failures.engines_full.status || status === failures.no_engine.status)) {
    answer.discard()
    return { engine, failure: 'busy', status }
  }
  // A redirect would send the client past the gateway: no engine has reason to answer with one.
  if (status < 500) {
    answer.discard()
    return { engine, failure: 'malformed', status }
  }
  if (status !== 503) {
    answer.discard()
    return { engine, failure: status === failures.loop.status ? 'loop' : 'status_5xx', status }
  }
  const body = utf8.decode(await answer.read(BUSY_BODY_BYTES))
  return { engine, failure: body.includes(BUSY_WORDS) ? 'busy' : 'status_5xx', status }
}
