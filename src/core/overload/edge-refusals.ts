import { BoundedMap } from '../bounded-map.ts'
import type { Admission } from '../contract/admission.ts'
import type { Refusal } from '../contract/refusal.ts'
import { isForLackOfRoom, MAX_REFUSALS_PER_S } from './refusal-rate.ts'

/** Time for which an edge may answer without having asked the pool, ms. */
const FRESH_MS = 1_000

/** Time constant of the counts, ms. */
const COUNTED_MS = 2_000

/** Kinds of requests with counts of their own; the kind that was used longest ago is forgotten. */
const MAX_KINDS = 1_000

/** Spread of a repeated retry time around that of the pool. */
const RETRY_SPREAD = 0.4

/** Requests that the pool is likely to treat alike, as one edge counts them. */
class RequestKind {
  /** Decayed counts of requests. */
  admitted = 0
  refused = 0
  #countedAt = 0
  /** Last refusal by the pool; null: none. */
  refusal: Refusal | null = null
  refusedAt = 0
  /** Part of a request that may be sent to the pool. */
  credit = 0

  decay(now: number): void {
    const left = Math.exp(-Math.max(0, now - this.#countedAt) / COUNTED_MS)
    this.admitted *= left
    this.refused *= left
    this.#countedAt = now
  }
}

/**
 * Refusals that an edge answers in place of a pool that refuses more than `MAX_REFUSALS_PER_S`. The pool gets as many
 * requests as it admits, and its share of that rate beyond, so it stays as full as before: of each kind of requests,
 * the edge sends the share (admitted + refused * limit / rate) / (admitted + refused). A kind that the pool admits is
 * always sent.
 */
export class EdgeRefusals {
  readonly #random: () => number
  readonly #kinds = new BoundedMap<string, RequestKind>(MAX_KINDS)
  #unreported = 0

  constructor(random: () => number) {
    this.#random = random
  }

  /** The refusal of a request that need not be sent. null: ask the pool. */
  answer(admission: Admission, now: number): Refusal | null {
    const kind = this.#kinds.get(kindOf(admission))
    const refusal = kind?.refusal ?? null
    if (kind === undefined || refusal === null || !isForLackOfRoom(admission, refusal)) return null
    const { refusalsPerS = 0 } = refusal
    const ageMs = now - kind.refusedAt
    if (refusalsPerS <= MAX_REFUSALS_PER_S || ageMs < 0 || ageMs >= FRESH_MS) return null
    kind.decay(now)
    const { admitted, refused } = kind
    kind.credit += (admitted + (refused * MAX_REFUSALS_PER_S) / refusalsPerS) / (admitted + refused)
    if (kind.credit >= 1) {
      kind.credit -= 1
      return null
    }
    kind.refused += 1
    this.#unreported += 1
    const spread = 1 + RETRY_SPREAD * (this.#random() - 0.5)
    return { ...refusal, retryAfterMs: Math.round(refusal.retryAfterMs * spread) }
  }

  /** Refusals to report to the pool with its next call. */
  take(): number {
    const refusals = this.#unreported
    this.#unreported = 0
    return refusals
  }

  /** The call failed: the refusals are reported with the next one. */
  giveBack(refusals: number): void {
    this.#unreported += refusals
  }

  /** Records an answer of the pool. `refusal`: null if it admitted the request. */
  answered(admission: Admission, refusal: Refusal | null, now: number): void {
    if (refusal !== null && !isForLackOfRoom(admission, refusal)) return
    const name = kindOf(admission)
    const known = this.#kinds.get(name)
    // Without refusals nothing needs to be counted.
    if (refusal?.refusalsPerS === undefined && known === undefined) return
    const kind = known ?? new RequestKind()
    kind.decay(now)
    if (refusal === null) kind.admitted += 1
    else {
      kind.refused += 1
      kind.refusal = refusal
      kind.refusedAt = now
    }
    this.#kinds.set(name, kind)
  }
}

/** Requests of one key, class and model, with prompts of about the same length. */
const kindOf = ({ tenant, requestClass = 'standard', model, promptTokens }: Admission): string =>
  `${tenant}\n${requestClass}\n${model}\n${Math.clz32(promptTokens)}`
