/** Judges answers of engines by the rules of their type, for early and final legs alike. */
import { ANSWER_PREFIX_BYTES, type AnswerMeaning } from '../engines/answer-meaning.ts'
import type { EngineError } from '../protocols/engine-error.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import type { OriginAnswer } from '../ports/origin.ts'
import { withDeadline } from '../timeout.ts'
import { timersOf } from '../timers.ts'
import { withoutQuery } from '../url.ts'
import type { AttemptContext, FailedOutcome } from './attempt-context.ts'
import { keepsAnswer } from './retry/kept-answer.ts'
import { knownEngines } from './known-engines.ts'
import { routeNameOf } from './retry/missing-routes.ts'
import { refusesRank } from './rank-targets.ts'

/** Time limit, ms, of the body of an answer that does not go to the client: it shows whether the engine is full. */
const BODY_MS = 2_000

/** An answer, and the request that it belongs to. */
interface ReceivedAnswer {
  readonly answer: OriginAnswer
  readonly engine: EngineTarget
  readonly path: string
}

/** Whether the status alone shows that the answer can go to the client: no body is needed. */
export const isSuccess = (status: number): boolean => status >= 200 && status < 300

/**
 * Reads the first part of an answer that is no success, and judges it. null: it goes to the client, and its first bytes
 * are here. Rejects with an OriginError.
 */
export async function classifyRefusal(
  attempt: AttemptContext,
  received: ReceivedAnswer,
): Promise<FailedOutcome | null> {
  const { answer } = received
  if (isSuccess(answer.status)) return null
  const body = answer.firstByte(ANSWER_PREFIX_BYTES)
  if (isFault(answer.status)) await bodyOfFault(attempt, body)
  else await body
  const failed = failureOf(attempt, received, answer.firstBytes())
  if (failed === null) await body
  return failed
}

/** Waits for the body for a short time. A body that breaks or is late adds nothing to the status. */
async function bodyOfFault({ exchange, ports }: AttemptContext, body: Promise<void>): Promise<void> {
  try {
    await withDeadline(BODY_MS, body, { timers: timersOf(exchange.scope, ports) })
  } catch (error) {
    if (exchange.signal.aborted) throw error
  }
}

/** Statuses that no client gets, unless their text says otherwise. */
const isFault = (status: number): boolean => status < 400 || (status >= 500 && status !== 501)

/**
 * Judges an error that came with a success status before any output. vLLM sends the head before it checks its queue, so
 * "busy" may arrive as the only event of a 200. The client has got nothing yet, so another engine may try. null: the
 * answer goes to the client.
 */
export function classifyFault(
  attempt: AttemptContext,
  received: ReceivedAnswer,
  fault: EngineError | null = received.answer.fault(),
): FailedOutcome | null {
  if (fault === null || !isSuccess(received.answer.status)) return null
  return failureBy(attempt, received, { status: fault.status ?? INTERNAL_ERROR, body: fault.body })
}

/** Status of an error that names none. */
const INTERNAL_ERROR = 500

const utf8 = new TextDecoder()

function failureOf(attempt: AttemptContext, received: ReceivedAnswer, bytes: Uint8Array): FailedOutcome | null {
  const body = utf8.decode(bytes.subarray(0, ANSWER_PREFIX_BYTES))
  return failureBy(attempt, received, { status: received.answer.status, body })
}

function failureBy(
  { exchange, ports, placed }: AttemptContext,
  { answer, engine, path }: ReceivedAnswer,
  { status, body }: { readonly status: number; readonly body: string },
): FailedOutcome | null {
  const { model, adapter } = exchange.source.admission(placed.route)
  const { headers } = answer
  const sent = { path: withoutQuery(path), model: engine.kind === 'provider' ? engine.providerModel : model, adapter }
  const type = knownEngines(ports.origin).typeOf(engine)
  const failed = refusesRank(engine, type, { status, body })
    ? REFUSED_RANK
    : toFailure(type.answerOf({ status, headers, body }, sent))
  if (failed === null) return null
  if (!keepsAnswer(failed)) answer.discard()
  const route = failed.failure === 'lacks_route' ? { route: routeNameOf(exchange.method, path) } : {}
  return { engine, status, ...failed, ...route, ...(keepsAnswer(failed) ? { answer } : {}) }
}

/** Another rank, or the same with its other number, may take the request. */
const REFUSED_RANK = { failure: 'busy' } as const

/** null: the answer goes to the client. */
function toFailure(meaning: AnswerMeaning): Omit<FailedOutcome, 'engine' | 'status'> | null {
  switch (meaning.kind) {
    case 'ok':
      return null
    case 'client': {
      const limitTokens = meaning.tooLong?.limitTokens ?? null
      return limitTokens === null ? null : { failure: 'too_long', limitTokens }
    }
    case 'busy':
      return {
        failure: 'busy',
        ...(meaning.retryAfterS === null ? {} : { retryAfterMs: meaning.retryAfterS * 1000 }),
        ...(meaning.scope === 'server' ? { isServerFull: true } : {}),
        ...(meaning.lasts === 'until_healthy' ? { isAway: true } : {}),
      }
    case 'lacks':
      return { failure: 'lacks_model' }
    case 'lacks_route':
      return { failure: 'lacks_route' }
    case 'broken':
      return { failure: meaning.failure }
  }
}
