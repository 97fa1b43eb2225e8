/** One leg of a split request: a question to an engine whose whole answer the gateway reads itself. */
import type { AttemptFailure, Usage } from '../../core/cluster/contract.ts'
import { OriginError, type EngineTarget, type GoneSignal, type OriginAnswer } from '../../ports.ts'
import { rejected, type AttemptFailed, type Deal } from '../attempt-failed.ts'
import { UsageScanner } from '../usage.ts'

export interface LegCall {
  readonly target: EngineTarget
  readonly path: string
  readonly body: readonly Uint8Array[]
  /** From dispatch to the last byte of the answer. */
  readonly limitMs: number
  /** Absent: the exchange's. */
  readonly headers?: readonly string[]
  /** Absent: the exchange's. */
  readonly signal?: GoneSignal
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
export type LegEnd = { readonly answer: LegAnswer } | { readonly refusal: OriginAnswer; readonly engine: EngineTarget } | { readonly failed: AttemptFailed }

/** Block ids of a very long prompt, with room for a backend that sends its whole state. */
const ANSWER_BYTES = 32 * 1024 * 1024

/** Never streams. Rejects only with what is nobody's failure: the client is gone, or the signal that was given. */
export async function askLeg(deal: Deal, call: LegCall): Promise<LegEnd> {
  const { exchange, ports, placed } = deal
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
    const failed = await rejected(answer, call.target)
    if (failed !== null) return { failed }
    if (answer.status >= 300) {
      await answer.firstByte()
      return { refusal: answer, engine: call.target }
    }
    const bytes = await answer.read(ANSWER_BYTES)
    const json = objectOf(bytes)
    return json === null ? { failed: failedBy(call.target, 'malformed', answer.status) } : { answer: { json, usage: usageOf(bytes) } }
  } catch (error) {
    answer?.discard()
    if (!(error instanceof OriginError) || exchange.signal.aborted) throw error
    ports.log.warn('leg_failed', { id: exchange.id, cluster: placed.route.cluster.id, engine: call.target.id, failure: error.failure, error })
    return { failed: failedBy(call.target, error.failure, null) }
  }
}

const failedBy = (engine: EngineTarget, failure: AttemptFailure, status: number | null): AttemptFailed => ({ engine, failure, status })

function usageOf(bytes: Uint8Array): Usage | null {
  const scanner = new UsageScanner()
  scanner.scan(bytes, 0, bytes.length)
  return scanner.usage()
}

/** null: not a JSON object. */
function objectOf(bytes: Uint8Array): Readonly<Record<string, unknown>> | null {
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes))
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null
  } catch {
    return null
  }
}
