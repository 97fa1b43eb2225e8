/** One leg of a split request: a question to an engine whose whole answer the gateway reads itself. */
import { isJsonObject } from '../../core/json.ts'
import type { AttemptFailure, Usage } from '../../core/contract/contract.ts'
import { OriginError, type EngineTarget, type AbortSignalLike, type OriginAnswer } from '../../ports.ts'
import { classifyStatus, type AttemptFailed, type AttemptContext } from '../classify.ts'
import { UsageScanner } from '../relay/usage.ts'
import type { AnswerTransform } from '../relay/transform.ts'

/** The request whose answer is the client's. */
export interface FinalLeg {
  readonly target: EngineTarget
  readonly path: string
  readonly body: readonly Uint8Array[] | null
  /** What happened on the way, for the decision header. */
  readonly notes: readonly string[]
  /** How the answer differs from the one the client asked for; null: not at all. */
  readonly change: AnswerTransform | null
  /** Who holds what the engine is to fetch; absent: it fetches nothing. */
  readonly holder?: EngineTarget
}

/** What the legs before it came to. */
export type LegResult =
  | { readonly last: FinalLeg }
  /** An engine's own word to the client, before the answer. */
  | { readonly refusal: OriginAnswer; readonly engine: EngineTarget }
  | { readonly failed: AttemptFailed }

/** The client's request to one engine that does all of it. */
export function wholeLeg({ exchange, placed }: AttemptContext, notes: readonly string[] = []): FinalLeg {
  return { target: placed.engine, path: exchange.path, body: exchange.body(placed.route), notes, change: null }
}

export interface LegCall {
  readonly target: EngineTarget
  readonly path: string
  readonly body: readonly Uint8Array[]
  /** From dispatch to the last byte of the answer. */
  readonly limitMs: number
  /** Absent: the exchange's. */
  readonly headers?: readonly string[]
  /** Absent: the exchange's. */
  readonly signal?: AbortSignalLike
}

export interface LegAnswer {
  /** The answer, parsed: a JSON object. */
  readonly json: Readonly<Record<string, unknown>>
  /** What the engine counted; null: it did not say. */
  readonly usage: Usage | null
}

/**
 * What came of a leg: its answer; or the engine's own word to the client (4xx: the request is at fault, no other engine
 * would say otherwise); or why another engine should try.
 */
export type LegOutcome =
  | { readonly answer: LegAnswer }
  | { readonly refusal: OriginAnswer; readonly engine: EngineTarget }
  | { readonly failed: AttemptFailed }

/** Block ids of a very long prompt, with room for a backend that sends its whole state. */
const ANSWER_BYTES = 32 * 1024 * 1024

/** Never streams. Rejects only with what is nobody's failure: the client is gone, or the signal that was given. */
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
      signal: call.signal ?? exchange.signal,
    })
    const failed = await classifyStatus(answer, call.target)
    if (failed !== null) return { failed }
    if (answer.status >= 300) {
      await answer.firstByte()
      return { refusal: answer, engine: call.target }
    }
    const bytes = await answer.read(ANSWER_BYTES)
    const json = objectOf(bytes)
    return json === null
      ? { failed: failedBy(call.target, 'malformed', answer.status) }
      : { answer: { json, usage: usageOf(bytes) } }
  } catch (error) {
    answer?.discard()
    if (!(error instanceof OriginError) || exchange.signal.aborted) throw error
    ports.log.warn('leg_failed', {
      id: exchange.id,
      cluster: placed.route.cluster.id,
      engine: call.target.id,
      failure: error.failure,
      error,
    })
    return { failed: failedBy(call.target, error.failure, null) }
  }
}

const failedBy = (engine: EngineTarget, failure: AttemptFailure, status: number | null): AttemptFailed => ({
  engine,
  failure,
  status,
})

function usageOf(bytes: Uint8Array): Usage | null {
  const scanner = new UsageScanner()
  scanner.scan(bytes, 0, bytes.length)
  return scanner.usage()
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
