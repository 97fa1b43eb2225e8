import { DAY_MS, dayOf } from '../utc-day.ts'
import type { KeyLimits, LimitAnswer, LimitState, LimitedRequest, RunningRequest, Settlement } from './key-limits.ts'
import { MinuteWindow } from './minute-window.ts'

/** Tokens of one day, counted from the epoch. */
interface DayUse {
  readonly day: number
  readonly tokens: number
}

/** Below so many keys none is dropped. */
const MIN_SWEEP_KEYS = 1_000

/** Lease of a reservation that has none, ms. */
const LAPSE_MS = 3_600_000

/** Retry time of a key with all its concurrent requests running, ms: requests end at any time. */
const CONCURRENT_RETRY_MS = 1_000

interface OpenRequest {
  readonly tokens: number
  readonly at: number
  readonly leaseMs: number
  /** When it was reserved or last renewed. */
  readonly renewedAt: number
}

class KeyUse {
  readonly requests = new MinuteWindow()
  readonly tokens = new MinuteWindow()
  /** The one that was renewed longest ago first. */
  readonly open = new Map<string, OpenRequest>()
  day = 0
  dayTokens = 0
}

/**
 * Exact limits of keys. A request takes all its limits or none. Tokens are reserved by an estimate and settled at the
 * end. Every reservation needs one settlement; one that never comes lapses after its lease, unless it is renewed.
 */
export class KeyLimiter {
  readonly #keys = new Map<string, KeyUse>()
  /** Number of keys at which those that count nothing are dropped. */
  #sweepAt = MIN_SWEEP_KEYS

  /** Number of keys. */
  get size(): number {
    return this.#keys.size
  }

  /** Reserves a request, or returns the first limit that it would exceed. A repeated call has no further effect. */
  reserve({ key, id, limits, tokens, leaseMs = LAPSE_MS }: LimitedRequest, now: number): LimitAnswer {
    const use = this.#useOf(key, now)
    if (use.open.has(id)) return answerOf(use, limits, { exceeded: null, retryAfterMs: 0 }, now)
    const cost = costOf(limits, tokens)
    const refusal = refusalOf(use, limits, cost, now)
    if (refusal !== null) return answerOf(use, limits, refusal, now)
    use.requests.add(1, now, now)
    use.tokens.add(cost, now, now)
    use.dayTokens += cost
    use.open.set(id, { tokens: cost, at: now, leaseMs, renewedAt: now })
    return answerOf(use, limits, { exceeded: null, retryAfterMs: 0 }, now)
  }

  /** Begins the lease of a running request anew. */
  renew({ key, id }: RunningRequest, now: number): void {
    const open = this.#keys.get(key)?.open
    const one = open?.get(id)
    if (open === undefined || one === undefined) return
    open.delete(id)
    open.set(id, { ...one, renewedAt: now })
  }

  /** Ends a request. Has effect once. */
  settle({ key, id, tokens }: Settlement, now: number): void {
    const use = this.#keys.get(key)
    const open = use?.open.get(id)
    if (use === undefined || open === undefined) return
    use.open.delete(id)
    if (tokens === null) return
    rollDay(use, now)
    const more = tokens - open.tokens
    // Tokens beyond the estimate were used just now.
    use.tokens.add(more, more > 0 ? now : open.at, now)
    if (dayOf(open.at) === use.day || more > 0) use.dayTokens = Math.max(0, use.dayTokens + more)
  }

  /** Tokens of the current day, for storage. null: the key is unknown. */
  dayUse(key: string): DayUse | null {
    const use = this.#keys.get(key)
    return use === undefined ? null : { day: use.day, tokens: use.dayTokens }
  }

  /** Restores the tokens of a day into an empty limiter. */
  restoreDay(key: string, { day, tokens }: DayUse): void {
    const use = new KeyUse()
    use.day = day
    use.dayTokens = tokens
    this.#keys.set(key, use)
  }

  isRunning({ key, id }: RunningRequest): boolean {
    return this.#keys.get(key)?.open.has(id) === true
  }

  /** Number of running requests of a key. */
  running(key: string): number {
    return this.#keys.get(key)?.open.size ?? 0
  }

  /** Names of keys may come from tokens of an identity provider, so there may be any number of them over time. */
  #sweep(now: number): void {
    for (const [key, use] of this.#keys) {
      lapse(use, now)
      rollDay(use, now)
      const used = use.open.size + use.requests.used(now) + use.tokens.used(now) + use.dayTokens
      if (used === 0) this.#keys.delete(key)
    }
    this.#sweepAt = Math.max(MIN_SWEEP_KEYS, 2 * this.#keys.size)
  }

  #useOf(key: string, now: number): KeyUse {
    let use = this.#keys.get(key)
    if (use === undefined) {
      if (this.#keys.size >= this.#sweepAt) this.#sweep(now)
      this.#keys.set(key, (use = new KeyUse()))
    }
    lapse(use, now)
    rollDay(use, now)
    return use
  }
}

function lapse(use: KeyUse, now: number): void {
  for (const [id, { renewedAt, leaseMs }] of use.open) {
    if (now - renewedAt < leaseMs) break
    use.open.delete(id)
  }
}

function rollDay(use: KeyUse, now: number): void {
  const day = dayOf(now)
  if (day <= use.day) return
  use.day = day
  use.dayTokens = 0
}

/** Largest cost of a request, tokens: a client may ask for 1e400 of them. */
const MAX_TOKENS = 1e12

/**
 * Tokens that a request reserves. A request that is larger than a whole limit is admitted when nothing of the limit is
 * used.
 */
export const costOf = ({ tokensPerMin, tokensPerDay }: KeyLimits, tokens: number): number =>
  Math.ceil(Math.min(tokens, tokensPerMin ?? MAX_TOKENS, tokensPerDay ?? MAX_TOKENS, MAX_TOKENS))

type LimitRefusal = Pick<LimitAnswer, 'exceeded' | 'retryAfterMs'>

function refusalOf(use: KeyUse, limits: KeyLimits, cost: number, now: number): LimitRefusal | null {
  const { requestsPerMin, tokensPerMin, tokensPerDay, concurrent } = limits
  if (concurrent !== null && use.open.size >= concurrent)
    return { exceeded: 'concurrent', retryAfterMs: CONCURRENT_RETRY_MS }
  if (requestsPerMin !== null && use.requests.used(now) + 1 > requestsPerMin)
    return { exceeded: 'requests_per_min', retryAfterMs: use.requests.freeInMs(requestsPerMin - 1, now) }
  if (tokensPerMin !== null && isOver(use.tokens.used(now) + cost, tokensPerMin))
    return { exceeded: 'tokens_per_min', retryAfterMs: use.tokens.freeInMs(tokensPerMin - cost, now) }
  if (tokensPerDay !== null && isOver(use.dayTokens + cost, tokensPerDay))
    return { exceeded: 'tokens_per_day', retryAfterMs: (use.day + 1) * DAY_MS - now }
  return null
}

/** A limit of 0, the share of a gateway in a small limit, admits no request, although all cost 0 there. */
const isOver = (tokens: number, limit: number): boolean => tokens > limit || limit === 0

function answerOf(
  use: KeyUse,
  { requestsPerMin, tokensPerMin }: KeyLimits,
  refused: LimitRefusal,
  now: number,
): LimitAnswer {
  const stateOf = (limit: number | null, window: MinuteWindow): LimitState | null =>
    limit === null
      ? null
      : {
          limit,
          remaining: Math.max(0, Math.floor(limit - window.used(now))),
          resetMs: window.used(now) === 0 ? 0 : window.freeInMs(0, now),
        }
  return { ...refused, requests: stateOf(requestsPerMin, use.requests), tokens: stateOf(tokensPerMin, use.tokens) }
}

export const UNLIMITED: KeyLimits = { requestsPerMin: null, tokensPerMin: null, tokensPerDay: null, concurrent: null }

export const isLimited = (limits: KeyLimits): boolean => Object.values(limits).some((limit) => limit !== null)
