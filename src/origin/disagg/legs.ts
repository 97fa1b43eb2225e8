/** One preparatory leg of a split request: a call whose whole response the gateway reads. */
import { isJsonObject } from '../../core/json.ts'
import type { AttemptFailure, Usage } from '../../core/contract/outcome.ts'
import { OriginError, type OriginAnswer } from '../../ports/origin.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { AbortSignalLike } from '../../ports/abort-signal.ts'
import { classifyStatus } from '../classify.ts'
import type { AttemptFailed, AttemptContext } from '../attempt-context.ts'
import { UsageScanner } from '../relay/usage.ts'
import type { AnswerTransform } from '../relay/transform.ts'

/*
 * Finds the engine at fault when a decode engine fails: the prefill engine it was to fetch KV data from may be down.
 */

/**
 * Time limit, ms, of the health check; the client waits for it. A healthy engine answers in milliseconds under full
 * load.
 */
const ANSWER_MS = 1_000

/**
 * Returns the failure of a final leg, or that of the prefill engine if that one is down: a decode engine that cannot
 * fetch KV data answers 500 (vLLM with NIXL) and is healthy. Otherwise the failure of one prefill engine would open
 * the circuits of all decode engines. Never rejects.
 */
export async function attributeFailure(
  attempt: AttemptContext,
  failed: AttemptFailed,
  holder: EngineTarget | undefined,
): Promise<AttemptFailed> {
  if (holder === undefined || !(failed.failure === 'status_5xx' || failed.failure === 'first_byte_timeout'))
    return failed
  const { exchange, ports } = attempt
  try {
    const answer = await ports.origin.send({
      target: holder,
      method: 'GET',
      path: '/health',
      headers: ['accept-encoding', 'identity'],
      body: null,
      connectMs: ANSWER_MS,
      firstByteMs: ANSWER_MS,
      signal: exchange.signal,
    })
    answer.discard()
    return answer.status < 500
      ? failed
      : gone(attempt, { engine: holder, failure: 'status_5xx', status: answer.status })
  } catch (error) {
    // A late engine may only be busy, and the client may have disconnected.
    const isGone = error instanceof OriginError && !inconclusive.has(error.failure)
    return isGone ? gone(attempt, { engine: holder, failure: error.failure, status: null }) : failed
  }
}

const inconclusive: ReadonlySet<AttemptFailure> = new Set(['first_byte_timeout', 'gateway_limit'])

function gone({ exchange, ports, placed }: AttemptContext, failed: AttemptFailed): AttemptFailed {
  ports.log.warn('kv_source_unreachable', {
    id: exchange.id,
    cluster: placed.route.cluster.id,
    engine: failed.engine.id,
    failure: failed.failure,
  })
  return failed
}

/** The request whose response goes to the client. */
export interface FinalLeg {
  readonly target: EngineTarget
  readonly path: string
  readonly body: readonly Uint8Array[] | null
  /** Entries of the decision header. */
  readonly notes: readonly string[]
  /** Transform from the engine's response to the client's. null: none is needed. */
  readonly change: AnswerTransform | null
  /** Engine from which KV data is fetched. Absent: none. */
  readonly holder?: EngineTarget
}

/** Result of the preparatory legs. */
export type LegResult =
  | { readonly last: FinalLeg }
  /** The engine's own error response, which goes to the client. */
  | { readonly refusal: OriginAnswer; readonly engine: EngineTarget }
  | { readonly failed: AttemptFailed }

/** The client's request to a single engine. */
export function wholeLeg({ exchange, placed }: AttemptContext, notes: readonly string[] = []): FinalLeg {
  const { external } = placed.engine
  const edit = external === undefined ? undefined : { set: {}, remove: [], providerModel: external.model }
  return { target: placed.engine, path: exchange.path, body: exchange.body(placed.route, edit), notes, change: null }
}

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
  | { readonly refusal: OriginAnswer; readonly engine: EngineTarget }
  | { readonly failed: AttemptFailed }

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
