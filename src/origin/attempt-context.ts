/** What the steps of an attempt share, and how it can fail. */
import type { AttemptFailure } from '../core/contract/outcome.ts'
import type { AbortSignalLike } from '../ports/abort-signal.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import type { OriginAnswer } from '../ports/origin.ts'
import type { PlaceStep } from './placement/place-step.ts'
import type { AcquiredPlacement } from './placement/acquired-placement.ts'
import type { PoolDigests } from './digests/pool-digests.ts'
import type { Exchange } from './exchange.ts'
import type { PoolRoute } from './pool-route.ts'
import type { StageTimer } from './stage-timer.ts'
import type { UpstreamPorts } from './upstream-ports.ts'

export interface AttemptContext {
  readonly exchange: Exchange
  readonly ports: UpstreamPorts
  readonly placed: AcquiredPlacement
  readonly stages: StageTimer
  /** Earlier failed attempts of the same request. */
  readonly earlier: readonly FailedOutcome[]
  readonly digests: PoolDigests
  readonly probeSoon?: ProbeSoon | undefined
  /** Aborted when the response is not needed any more. */
  readonly signal: AbortSignalLike
  /** Its part in a race of two attempts (hedge or rescue). */
  readonly race: RaceEntry
  readonly stepsOf: (route: PoolRoute) => { readonly place: PlaceStep }
}

/** Sends one attempt. Resolves with the response, or with failures after which another engine may try. */
export type AttemptStep = (attempt: AttemptContext) => Promise<AttemptOutcome>

type AttemptOutcome = Response | FailedOutcome | { readonly failures: readonly FailedAttempt[] }

/** A failed attempt: its outcome, and the placement that it had. */
export interface FailedAttempt {
  readonly outcome: FailedOutcome
  readonly placed: AcquiredPlacement
}

/** One of two attempts of a request that run at once. */
export interface RaceEntry {
  /** The response is that of the other attempt. */
  readonly lost: boolean
  /** Bookings of the request so far. */
  readonly booked: number
  /** Claims the response to the client at the first byte. `refused`: the engine refuses, and the other may not. */
  claim(answer: Pick<OriginAnswer, 'status' | 'sse'>, early: boolean): 'won' | 'lost' | 'refused'
}

/** Entry of an attempt that runs without a race. */
export const alone: RaceEntry = { lost: false, booked: 1, claim: () => 'won' }

/** Called with each engine that failed an attempt, so that its health is checked soon. */
export type ProbeSoon = (route: PoolRoute, engine: EngineTarget) => void

/** Outcome of an attempt after which another engine may try. */
export interface FailedOutcome {
  readonly engine: EngineTarget
  readonly failure: AttemptFailure
  /** Status of the engine's response. null: no response. */
  readonly status: number | null
  /** Time after which a full engine asks to be tried again. Absent: it gave none. */
  readonly retryAfterMs?: number
  /** The server is full, with all its ranks. Absent: only the engine is, or it failed. */
  readonly isServerFull?: boolean
  /** The engine takes no requests before its next good health check: it loads, is paused or is retired. */
  readonly isAway?: boolean
  /** `lacks_route`: the route, as in MissingRoutes. */
  readonly route?: string
  /** Context of an engine that refused the request as too long, tokens. Absent: it did not, or did not report it. */
  readonly limitTokens?: number
  /** Goes to the client if no engine can do better (`keepsAnswer`). Absent: an early leg was refused. */
  readonly answer?: OriginAnswer
}
