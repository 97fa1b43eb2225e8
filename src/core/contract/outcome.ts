import { PAYLOAD_VERSION } from './payload-version.ts'
import type { StageTimes } from './stages.ts'

export type Result = 'complete' | 'client_gone' | 'engine_failed' | 'engine_refused' | 'abandoned' | 'lapsed'

/** Why an attempt on an engine failed before or after its first byte. */
export type AttemptFailure =
  | 'connect'
  | 'connect_timeout'
  | 'reset'
  | 'malformed'
  | 'first_byte_timeout'
  /** A non-streaming response exceeded its timeout. Neither retried nor counted as an engine failure. */
  | 'answer_timeout'
  | 'idle_timeout'
  | 'status_5xx'
  | 'busy'
  /** The engine lacks the model or adapter that it should serve. */
  | 'lacks_model'
  /** The engine could not load the adapter of the request, which is no fault. */
  | 'lacks_adapter'
  /** The engine has no such route, which is no fault. Never the failure of an outcome. */
  | 'lacks_route'
  /** The request is too long for this engine, and may fit a larger one. Never the failure of an outcome. */
  | 'too_long'
  /** The operator paused the engine, and the answer may not go on there. The engine is not at fault. */
  | 'paused'
  /** The gateway has no descriptors or ports left. The engine is not at fault. */
  | 'gateway_limit'
  /** Routing loop: the address leads to a gateway that the request has passed. */
  | 'loop'

export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
  /** Cached tokens; null: not reported. */
  readonly cachedTokens: number | null
}

/** Outcome of an attempt. `failure` is set if the engine is at fault. */
export interface Outcome {
  readonly version: number
  readonly result: Result
  readonly failure: AttemptFailure | null
  /**
   * Engine of a split or staged placement that failed, was busy or refused; absent: unknown, so no circuit is
   * affected.
   */
  readonly failedEngine?: string | null
  readonly status: number | null
  readonly usage: Usage | null
  /** Number of `data:` events, the fallback for output length without usage. 0 for native relays. */
  readonly outputEvents: number
  readonly stages: StageTimes
  /** Estimated output of a stream that is not parsed; null: nothing is known of it. Absent: it is parsed. */
  readonly estimatedTokens?: number | null | undefined
  /** The end of the stream was not parsed, so it may have been truncated. Absent: parsed, or not a stream. */
  readonly endUnseen?: boolean | undefined
}

/** Outcome with a result and no details. */
export const endedAs = (result: Result): Outcome => ({
  version: PAYLOAD_VERSION,
  result,
  failure: null,
  status: null,
  usage: null,
  outputEvents: 0,
  stages: {},
})
