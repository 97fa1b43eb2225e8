/** Classification of failed attempts, for final legs and preparatory legs alike. */
import { failures } from '../failure.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import type { OriginAnswer } from '../ports/origin.ts'
import type { AttemptFailed } from './attempt-context.ts'

/** Part of an error body, bytes, that is read to recognize a busy engine. */
const BUSY_BODY_BYTES = 16 * 1024

/** Part of the first event, bytes, that is read; an error message fits. */
const FIRST_EVENT_BYTES = 1024

const ERROR_EVENT = /^(?:\s*:[^\n]*\n)*\s*data: ?(\{\s*"error"[^\n]*)\n/

/**
 * Detects a stream that begins with an error event. vLLM sends the head before it checks its queue, so "busy" may
 * arrive as the only event of a 200. The client has got nothing yet, so another engine may try. Errors of the request
 * (4xx) pass.
 */
export function classifyFirstEvent(answer: OriginAnswer, engine: EngineTarget): AttemptFailed | null {
  if (!answer.sse) return null
  const bytes = answer.firstBytes()
  if (!mayBeError(bytes)) return null
  const match = ERROR_EVENT.exec(utf8.decode(bytes.subarray(0, FIRST_EVENT_BYTES)))
  if (match === null) return null
  const status = statusOf(match[1]!)
  if (status === null || status < 500 || status === 501) return null
  answer.discard()
  return { engine, failure: match[1]!.includes(BUSY_TEXT) ? 'busy' : 'status_5xx', status }
}

const utf8 = new TextDecoder()

const ERROR_BEGINS = new TextEncoder().encode('data:{"error"')

const COLON = 58

/** Checks the first bytes without decoding them. */
function mayBeError(bytes: Uint8Array): boolean {
  // Comments may precede the event.
  if (bytes[0] === COLON) return true
  let matched = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!
    if (byte === ERROR_BEGINS[matched]) {
      if (++matched === ERROR_BEGINS.length) return true
    } else if (byte !== 32 && byte !== 9 && byte !== 10 && byte !== 13) return false
  }
  return false
}

function statusOf(event: string): number | null {
  try {
    const { error } = JSON.parse(event) as { error?: { code?: unknown } | null }
    // Some versions send a number, others a string of digits.
    return Number(error?.code) || null
  } catch {
    return null
  }
}

/** vLLM's message at its admission limit: "The engine is currently busy and cannot accept new requests." */
const BUSY_TEXT = 'currently busy'

/**
 * Returns whether a status goes to the client as it is. 501 concerns the request. 401 and 407 do not go to the client:
 * they concern the gateway's own key at the engine.
 */
export function isClientAnswer(status: number, { isGateway = false }: Pick<EngineTarget, 'isGateway'> = {}): boolean {
  if (isGateway && status === failures.engines_full.status) return false
  return (
    (status >= 200 && status < 300) ||
    (status >= 400 && status < 500 && status !== 401 && status !== 407) ||
    status === 501
  )
}

/** Classifies a response. null: it goes to the client. Otherwise the engine failed or is full. */
export async function classifyStatus(answer: OriginAnswer, engine: EngineTarget): Promise<AttemptFailed | null> {
  const { status } = answer
  if (isClientAnswer(status, engine)) return null
  // Another gateway has already tried its engines: the gateway is healthy, the engines are unavailable.
  if (engine.isGateway === true && (status === failures.engines_full.status || status === failures.no_engine.status)) {
    answer.discard()
    return { engine, failure: 'busy', status }
  }
  // A redirect would send the client past the gateway, and no engine has a reason to redirect.
  if (status < 500) {
    answer.discard()
    return { engine, failure: 'malformed', status }
  }
  if (status !== 503) {
    answer.discard()
    return { engine, failure: status === failures.loop.status ? 'loop' : 'status_5xx', status }
  }
  const body = utf8.decode(await answer.read(BUSY_BODY_BYTES))
  return { engine, failure: body.includes(BUSY_TEXT) ? 'busy' : 'status_5xx', status }
}
