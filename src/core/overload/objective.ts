import type { Admission, RequestClass } from '../contract/admission.ts'
import type { SloConfig } from '../contract/pool-config.ts'
import type { Refusal } from '../contract/refusal.ts'
import { KeyShares } from './key-shares.ts'
import { PREFILL_WINDOW_MS } from './prefill-share.ts'
import type { Pressure } from './pressure.ts'

/** Wait on an engine, ms, up to which it counts as idle: a pool's objective refuses nothing there. */
const IDLE_WAIT_MS = 100

/** Limit of the time between tokens for each class, as a share of the learned limit. */
const CLASS_CEILINGS: Readonly<Record<RequestClass, number>> = { critical: 1, standard: 1, sheddable: 0.7 }

/** Limit for keys above their share while others are active, as a share of the learned limit. */
const OVER_CEILING = 0.25

/** Share of the admitted requests that long prompts keep, relative to all, while most requests are admitted. */
const LONG_SHARE = 0.7

const MIN_ADMITTED = 0.75

/**
 * Shares of its own prefill that count for a long prompt while long prompts have got less than their share: of the time
 * that it takes from later streams, and of that from the running ones.
 */
const OWED_PREFILL = 0.55
const OWED_STALL = 0.16

/** Maximum counted part of a prefill, ms: a longer one is admitted where there is room for this much. */
const MAX_PREFILL_MS = PREFILL_WINDOW_MS / 2

/** Maximum counted time that a prefill takes from the running streams, ms. */
const MAX_STALL_MS = MAX_PREFILL_MS / 2

/** Minimum share of an engine's time that decodes are assumed to get. */
const MIN_DECODE_SHARE = 0.02

/** Weight of a second of decode in the work of a key: decodes share an engine, prefills do not. */
const DECODE_WEIGHT = 0.05

const DEFAULT_OUTPUT_TOKENS = 256

/**
 * Prefills of the engine that the cost model must have learned from before a predicted wait refuses anything. Their
 * spread does not matter: errors of single prefills cancel out in the sum over a queue.
 */
const MIN_SAMPLES = 6

interface JudgedRequest {
  readonly prefill: Pressure
  /** Pressure of the engine that the request is charged on. null: it is refused. */
  readonly charged: Pressure | null
}

/** Request that is checked. */
interface CheckedRequest {
  readonly admission: Admission
  readonly now: number
  /** Time that the request has waited for room, ms. Absent: this is its first check. */
  readonly waitedMs?: number | undefined
}

/** Checks of a pool's service level objective. */
export interface ObjectiveChecks {
  /** The first limit that the request exceeds. null: none. */
  limitOf(request: CheckedRequest, prefill: Pressure, decode: Pressure): NonNullable<Refusal['limit']> | null
  /** Counts an admitted or refused request. */
  judged(request: CheckedRequest, judged: JudgedRequest): void
  /** Whether the prefill alone takes longer than the objective, so that the request is late on an idle engine too. */
  isLong(admission: Admission, prefill: Pressure): boolean
  /** Time to the first token that the objective allows, ms. null: there is no objective. */
  budgetMs(admission: Admission): number | null
  /** Longest wait after which the first token can still meet the objective, ms. Infinity: unknown, or no limit. */
  longestWaitMs(admission: Admission, prefill: Pressure): number
}

/** Checks of a pool without an objective. */
export const noObjective: ObjectiveChecks = {
  limitOf: () => null,
  judged: () => undefined,
  isLong: () => false,
  budgetMs: () => null,
  longestWaitMs: () => Infinity,
}

/** Limits that follow from the service level objective of a pool. */
export class Objective implements ObjectiveChecks {
  slo: SloConfig
  readonly #keys = new KeyShares()
  /** Admitted shares of all requests and of long prompts. */
  readonly #admitted = new AdmittedShare(0.01)
  readonly #longAdmitted = new AdmittedShare(0.05)

  constructor(slo: SloConfig) {
    this.slo = slo
  }

  limitOf(
    { admission, now, waitedMs = 0 }: CheckedRequest,
    prefill: Pressure,
    decode: Pressure,
  ): NonNullable<Refusal['limit']> | null {
    const { requestClass = 'standard', tenant } = admission
    const ceiling = CLASS_CEILINGS[requestClass] * (this.#keys.isOver(tenant, now) ? OVER_CEILING : 1)
    const isOwed = this.#owesLong && this.isLong(admission, prefill)
    // A prefill on another engine delays no decode of this one.
    const ownMs = prefill === decode ? Math.min(MAX_PREFILL_MS, prefill.prefillMs) : 0
    const stallMs = Math.min(MAX_STALL_MS, ownMs)
    const taken = isOwed
      ? { shareMs: OWED_PREFILL * ownMs, stallMs: OWED_STALL * stallMs }
      : { shareMs: ownMs, stallMs }
    // An engine without requests always admits one.
    if (decode.requests > 0) {
      if (this.slo.ttftMs !== null && decode.memoryShare > ceiling) return 'memory'
      if (itlBoundMs(decode, taken) > decode.stepLimitMs * ceiling) return 'itl'
    }
    // Lateness is measured; the rest of the wait is an estimate that may be no more than a prior.
    const waitMs = prefill.overdueMs + (prefill.samples >= MIN_SAMPLES ? prefill.waitMs + prefill.marginMs : 0)
    const lateMs = (waitedMs + waitMs) / ceiling + prefill.prefillMs
    return waitMs > IDLE_WAIT_MS && lateMs > this.budgetMs(admission) ? 'ttft' : null
  }

  judged({ admission, now, waitedMs }: CheckedRequest, { prefill, charged }: JudgedRequest): void {
    if (charged !== null) this.charge(admission, charged, now)
    if (admission.attempt > 0 || waitedMs !== undefined) return
    this.#admitted.add(charged !== null)
    if (this.isLong(admission, prefill)) this.#longAdmitted.add(charged !== null)
  }

  /** Charges the work of an admitted request to its key. */
  charge(
    { tenant, expectedOutputTokens, keyWeight = 1 }: Admission,
    { prefillMs, stepMs }: Pressure,
    now: number,
  ): void {
    const output = expectedOutputTokens ?? DEFAULT_OUTPUT_TOKENS
    const workS = (prefillMs + DECODE_WEIGHT * output * stepMs) / 1000
    this.#keys.charge(tenant, workS, now, keyWeight)
  }

  isLong(admission: Admission, { prefillMs }: Pressure): boolean {
    return prefillMs > this.budgetMs(admission)
  }

  longestWaitMs(admission: Admission, { prefillMs, samples }: Pressure): number {
    return samples < MIN_SAMPLES ? Infinity : this.budgetMs(admission) - prefillMs
  }

  budgetMs({ promptTokens }: Admission): number {
    const { ttftMs, ttftMsPer1kTokens } = this.slo
    if (ttftMs === null) return Infinity
    return ttftMs + ((ttftMsPer1kTokens ?? 0) * promptTokens) / 1000
  }

  /** Long prompts have got less than their share, although most requests are admitted. */
  get #owesLong(): boolean {
    const all = this.#admitted.share
    return all >= MIN_ADMITTED && this.#longAdmitted.share < LONG_SHARE * all
  }
}

/** Exponential mean of admitted requests. */
class AdmittedShare {
  readonly #gain: number
  share = 1

  constructor(gain: number) {
    this.#gain = gain
  }

  add(isAdmitted: boolean): void {
    this.share += this.#gain * (Number(isAdmitted) - this.share)
  }
}

/** Time that a further prefill takes: of the share of the engine's time, and from the running streams. */
interface TakenTime {
  readonly shareMs: number
  readonly stallMs: number
}

/**
 * Time between the tokens of the engine's streams that would last if prompts continued to arrive as now, with a further
 * one: the decode step within the share of time that prefills leave, and for each token a part of the prefills that are
 * queued already. A bound and no prediction: the predicted time follows the responses of the engine, so it rises only
 * when too many are admitted (docs/decisions/predicted-cost.md).
 */
function itlBoundMs(decode: Pressure, { shareMs, stallMs }: TakenTime): number {
  const { stepMs, prefillShare, queuedMs, outputTokens } = decode
  const decodeShare = Math.max(MIN_DECODE_SHARE, 1 - prefillShare - shareMs / PREFILL_WINDOW_MS)
  return stepMs / decodeShare + (queuedMs + stallMs) / Math.max(1, outputTokens ?? DEFAULT_OUTPUT_TOKENS)
}
