/** What an attempt is made of, and what tells a failed one: the same for an answer and for a leg before it. */
import type { AttemptFailure } from '../core/cluster/contract.ts'
import type { EngineTarget, OriginAnswer, Ports } from '../ports.ts'
import type { Exchange } from './exchange.ts'
import type { Placed } from './place.ts'
import type { Stages } from './stages.ts'

export interface Deal {
  readonly exchange: Exchange
  readonly ports: Ports
  readonly placed: Placed
  readonly stages: Stages
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

/** An answer that is not for the client: the engine failed, or is full. 501 is about the request, so it goes on. */
export async function rejected(answer: OriginAnswer, engine: EngineTarget): Promise<AttemptFailed | null> {
  const { status } = answer
  if (status >= 200 && status < 300) return null
  if ((status >= 400 && status < 500) || status === 501) return null
  // A redirect would send the client past the gateway: no engine has reason to answer with one.
  if (status < 400) {
    answer.discard()
    return { engine, failure: 'malformed', status }
  }
  if (status !== 503) {
    answer.discard()
    return { engine, failure: 'status_5xx', status }
  }
  // vLLM's admission limit: "The engine is currently busy and cannot accept new requests."
  const body = new TextDecoder().decode(await answer.read(BUSY_BODY_BYTES))
  return { engine, failure: body.includes('currently busy') ? 'busy' : 'status_5xx', status }
}
