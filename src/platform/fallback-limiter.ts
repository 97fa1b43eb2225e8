/** Limits per key while their carrier (a Valkey server or a Durable Object) is unreachable. */
import type { BudgetCharge, BudgetUse } from '../core/budgets/budget.ts'
import { KeyLimiter } from '../core/limits/key-limiter.ts'
import type { LimitAnswer, LimitedRequest, Settlement } from '../core/limits/key-limits.ts'
import { type LimitShare, shareOf } from '../core/limits/limit-share.ts'
import type { Config } from '../config.ts'
import type { Limiter } from '../ports/limiter.ts'
import type { Log } from '../ports/log.ts'
import { withDeadline, withTimeout } from '../timeout.ts'
import { UNLIMITED } from '../core/limits/key-limiter.ts'

/** Time without asking the carrier after it has failed, so that few requests wait for one that does not answer. */
const PAUSE_MS = 1_000
/**
 * After a failure each gateway also keeps to its share for so long: the carrier has not counted what was admitted
 * without it. A window of a minute has passed by then.
 */
const GUARD_MS = 61_000

interface FallbackParts {
  readonly now: () => number
  readonly log: Pick<Log, 'info' | 'warn'>
  /** Longest wait for the carrier, ms. */
  readonly limitMs: number
  readonly fallback: () => Config['keyLimitsFallback']
  readonly share: () => LimitShare
  /** When the carrier was last known to be unreachable, in the time of `now`. Absent: when a request found it so. */
  readonly lostAt?: () => number
}

/**
 * Asks the carrier, and counts the requests of this gateway beside it. In any minute gateways that know of each other
 * admit at most the limit, plus what was in use when the carrier failed.
 */
export class FallbackLimiter implements Limiter {
  readonly renewal: Limiter['renewal']
  readonly #carrier: Limiter
  readonly #parts: FallbackParts
  readonly #own = new KeyLimiter()
  #isUp = true
  #pausedUntil = -Infinity
  #guardedUntil = -Infinity
  #chargesPausedUntil = -Infinity

  constructor(carrier: Limiter, parts: FallbackParts) {
    this.#carrier = carrier
    this.renewal = carrier.renewal
    this.#parts = parts
  }

  async reserve(request: LimitedRequest): Promise<LimitAnswer> {
    const own = this.#isGuarded() ? this.#reserveShare(request) : null
    if (own !== null && own.exceeded !== null) return own
    const answer = await this.#reserveAtCarrier(request)
    if (answer === null) {
      const alone = own ?? this.#alone(request)
      if (alone.exceeded === null) this.#carrier.adopt?.(request)
      return alone
    }
    if (answer.exceeded === null) this.#record(request)
    else if (own !== null) this.#own.settle({ ...request, tokens: 0 }, this.#parts.now())
    return answer
  }

  settle(settlement: Settlement): Promise<void> | void {
    this.#own.settle(settlement, this.#parts.now())
    return this.#carrier.settle(settlement)
  }

  /** Rejects if the carrier does not answer in time, or has not lately. */
  async charge(charge: BudgetCharge): Promise<BudgetUse> {
    const { now, limitMs } = this.#parts
    if (now() < this.#chargesPausedUntil) throw new Error('the carrier of the limits did not answer lately')
    try {
      return await withDeadline(limitMs, Promise.resolve(this.#carrier.charge(charge)))
    } catch (error) {
      this.#chargesPausedUntil = now() + PAUSE_MS
      throw error
    }
  }

  #isGuarded(): boolean {
    const { now, fallback, lostAt } = this.#parts
    return now() < Math.max(this.#guardedUntil, (lostAt?.() ?? -Infinity) + GUARD_MS) && fallback() === 'share'
  }

  /** null: the carrier is unreachable. */
  async #reserveAtCarrier(request: LimitedRequest): Promise<LimitAnswer | null> {
    if (this.#parts.now() < this.#pausedUntil) return null
    const pending = this.#callCarrier(request)
    // Twice: after a stall of this process timers fire before answers that have arrived are read.
    for (let half = 0; half < 2; half++) {
      const found = await withTimeout(this.#parts.limitMs / 2, pending)
      if (found === null) continue
      if (!this.#isUp) this.#parts.log.info('key_limit_available')
      this.#isUp = true
      return found.value
    }
    this.#failed(request, pending)
    return null
  }

  /** A carrier that throws rejects. */
  async #callCarrier(request: LimitedRequest): Promise<LimitAnswer> {
    return this.#carrier.reserve(request)
  }

  #failed(request: LimitedRequest, pending: Promise<LimitAnswer>): void {
    const now = this.#parts.now()
    this.#pausedUntil = now + PAUSE_MS
    this.#guardedUntil = now + GUARD_MS
    const settleLate = ({ exceeded }: LimitAnswer): unknown =>
      // A request that still runs is settled at its end.
      exceeded === null && !this.#own.isRunning(request)
        ? this.#carrier.settle({ ...request, tokens: null })
        : undefined
    const wasUp = this.#isUp
    this.#isUp = false
    void pending.then(settleLate).catch((error: unknown) => {
      if (wasUp) this.#parts.log.warn('key_limit_unavailable', { fallback: this.#parts.fallback(), error })
    })
  }

  #alone(request: LimitedRequest): LimitAnswer {
    const fallback = this.#parts.fallback()
    if (fallback === 'share') return this.#reserveShare(request)
    if (fallback === 'closed') return { exceeded: 'unavailable', retryAfterMs: PAUSE_MS, requests: null, tokens: null }
    return this.#record(request)
  }

  #reserveShare(request: LimitedRequest): LimitAnswer {
    const limits = shareOf(request.limits, this.#parts.share())
    return this.#own.reserve({ ...request, limits }, this.#parts.now())
  }

  #record(request: LimitedRequest): LimitAnswer {
    return this.#own.reserve({ ...request, limits: UNLIMITED }, this.#parts.now())
  }
}
