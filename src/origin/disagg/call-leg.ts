/** One early leg of a split request: a call whose whole response the gateway reads. */
import type { AttemptFailure, Usage } from '../../core/contract/outcome.ts'
import { isJsonObject, type JsonObject } from '../../core/json.ts'
import type { AbortSignalLike } from '../../ports/abort-signal.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import { type OriginAnswer, OriginError } from '../../ports/origin.ts'
import type { AttemptContext, FailedOutcome } from '../attempt-context.ts'
import { faultOfAnswer, usageOfAnswer } from '../../protocols/answer.ts'
import { protocolOf } from '../../protocols/protocols.ts'
import { completeUsage } from '../../protocols/reported-usage.ts'
import { timersOf } from '../../timers.ts'
import { legOf } from '../retry/failed-leg.ts'
import { classifyFault, classifyRefusal } from '../classify.ts'

interface LegCall {
  readonly target: EngineTarget
  readonly path: string
  readonly body: readonly Uint8Array[]
  /** Time limit, ms, from dispatch to the last byte of the response. */
  readonly limitMs: number
  /** Absent: the exchange's. */
  readonly headers?: readonly string[]
  /** Absent: the exchange's. */
  readonly signal?: AbortSignalLike
}

export interface LegAnswer {
  /** The parsed response. */
  readonly json: Readonly<Record<string, unknown>>
  /** Token counts of the engine. null: not reported. */
  readonly usage: Usage | null
}

/**
 * Result of a leg: its response; the engine's error for the client (4xx: the request is at fault, any other engine
 * would answer the same); or the reason why another engine may try.
 */
export type LegOutcome =
  | { readonly answer: LegAnswer }
  | { readonly errorAnswer: OriginAnswer; readonly engine: EngineTarget }
  | { readonly failed: FailedOutcome }

/** Limit of a leg's response, bytes: block ids of a very long prompt, or the whole state from some backends. */
const ANSWER_BYTES = 32 * 1024 * 1024

/** Calls a leg, without a stream. Rejects only if the client disconnects or `signal` is aborted. */
export async function callLeg(attempt: AttemptContext, call: LegCall): Promise<LegOutcome> {
  const { exchange, ports, placed } = attempt
  let answer: OriginAnswer | null = null
  try {
    answer = await ports.origin.send({
      target: call.target,
      method: 'POST',
      path: call.path,
      headers: call.headers ?? exchange.headers,
      body: call.body,
      connectMs: placed.route.pool.limits.connectMs,
      firstByteMs: call.limitMs,
      protocol: null,
      expectsJson: false,
      expectsStream: false,
      signal: call.signal ?? exchange.signal,
      timers: timersOf(exchange.scope, ports),
    })
    const received = { answer, engine: call.target, path: call.path }
    const refused = await classifyRefusal(attempt, received)
    // A larger prefill engine has no larger decode engine behind it.
    if (refused?.failure === 'too_long') return { errorAnswer: answer, engine: call.target }
    if (refused !== null) return { failed: withoutAnswer(refused) }
    if (answer.status >= 300) return { errorAnswer: answer, engine: call.target }
    const bytes = await answer.read(ANSWER_BYTES)
    const json = objectOf(bytes)
    if (json === null) return { failed: failedBy(call.target, 'malformed', answer.status) }
    const failed = classifyFault(attempt, received, faultOfAnswer(bytes))
    if (failed !== null) return { failed: withoutAnswer(failed) }
    return { answer: { json, usage: usageOf(json, call.path) } }
  } catch (error) {
    answer?.discard()
    if (!(error instanceof OriginError) || exchange.signal.aborted) throw error
    ports.log.warn('leg_failed', {
      id: exchange.id,
      cluster: placed.route.cluster.id,
      engine: call.target.id,
      leg: legOf(placed.placement, call.target.id),
      failure: error.failure,
      error,
    })
    return { failed: failedBy(call.target, error.failure, null) }
  }
}

/** The answer of a leg never goes to the client in place of the response. */
function withoutAnswer({ answer, ...failed }: FailedOutcome): FailedOutcome {
  answer?.discard()
  return failed
}

const failedBy = (engine: EngineTarget, failure: AttemptFailure, status: number | null): FailedOutcome => ({
  engine,
  failure,
  status,
})

function usageOf(json: JsonObject, path: string): Usage | null {
  const protocol = protocolOf(path)
  const reported = protocol === undefined ? null : usageOfAnswer(json, protocol.usage)
  return reported === null ? null : completeUsage(reported)
}

/** null: not a JSON object. */
function objectOf(bytes: Uint8Array): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes))
    return isJsonObject(value) ? value : null
  } catch {
    return null
  }
}
