const SECOND_MS = 1_000
/** Seconds of the window: a minute, and the second that has begun. */
const SECONDS = 61

/**
 * Amounts of the last minute, by second. An amount leaves at least 60 s and less than 61 s after it was added, so that
 * no interval of a minute exceeds a limit on the window.
 */
export class MinuteWindow {
  readonly #amounts = new Float64Array(SECONDS)
  #second = 0
  #used = 0

  used(now: number): number {
    this.#advance(now)
    return this.#used
  }

  /** Changes the amount that was added at `at`. No effect if it has left. */
  add(amount: number, at: number, now: number): void {
    this.#advance(now)
    const second = Math.floor(at / SECOND_MS)
    if (second > this.#second || second <= this.#second - SECONDS) return
    const place = second % SECONDS
    const added = Math.max(amount, -this.#amounts[place]!)
    this.#amounts[place]! += added
    this.#used = Math.max(0, this.#used + added)
  }

  /** Time until at most `most` are used, ms. */
  freeInMs(most: number, now: number): number {
    this.#advance(now)
    let used = this.#used
    for (let second = this.#second - SECONDS + 1; second <= this.#second; second++) {
      if (used <= most) return Math.max(0, (second + SECONDS - 1) * SECOND_MS - now)
      used -= this.#amounts[((second % SECONDS) + SECONDS) % SECONDS]!
    }
    return (this.#second + SECONDS) * SECOND_MS - now
  }

  #advance(now: number): void {
    const second = Math.floor(now / SECOND_MS)
    // A clock that was set back keeps the amounts where they are.
    if (second <= this.#second) return
    if (second - this.#second >= SECONDS) {
      this.#amounts.fill(0)
      this.#used = 0
    } else
      for (let old = this.#second + 1; old <= second; old++) {
        this.#used -= this.#amounts[old % SECONDS]!
        this.#amounts[old % SECONDS] = 0
      }
    this.#second = second
  }
}

/** Limits of one key. null: no limit. */
export interface KeyLimits {
  readonly requestsPerMin: number | null
  readonly tokensPerMin: number | null
  /** Per day in UTC. */
  readonly tokensPerDay: number | null
  /** Requests that run at the same time. */
  readonly concurrent: number | null
}

export type LimitName = 'requests_per_min' | 'tokens_per_min' | 'tokens_per_day' | 'concurrent'

export interface Reservation {
  readonly key: string
  /** Id of the request. */
  readonly id: string
  readonly limits: KeyLimits
  /** Estimated tokens of prompt and output. */
  readonly tokens: number
  /** Time without a renewal after which the request counts as ended, ms. Absent: an hour. */
  readonly leaseMs?: number
}

/** A reserved request that has not been settled. */
export type RunningRequest = Pick<Reservation, 'key' | 'id'>

export interface Settlement {
  readonly key: string
  readonly id: string
  /** Tokens of prompt and output. null: unknown, so the estimate stays. */
  readonly tokens: number | null
}

/** Place of this gateway among those that share the limits. */
export interface LimitShare {
  readonly count: number
  /** From 0. */
  readonly rank: number
}

/** Limits of one gateway while it counts alone. The shares of all gateways add up to the limits. */
export function shareOf(limits: KeyLimits, { count, rank }: LimitShare): KeyLimits {
  const part = (limit: number | null): number | null =>
    limit === null ? null : Math.floor(limit / count) + (rank < limit % count ? 1 : 0)
  return {
    requestsPerMin: part(limits.requestsPerMin),
    tokensPerMin: part(limits.tokensPerMin),
    tokensPerDay: part(limits.tokensPerDay),
    concurrent: part(limits.concurrent),
  }
}

/** State of one limit for the client. */
export interface LimitState {
  readonly limit: number
  readonly remaining: number
  /** Time until nothing of the limit is used, ms. */
  readonly resetMs: number
}

export interface LimitAnswer {
  /**
   * Limit that the request would exceed; `unavailable`: its state is unknown. null: the request is admitted and
   * reserved.
   */
  readonly exceeded: LimitName | 'unavailable' | null
  /** Time until the request would be admitted, ms. 0: admitted. */
  readonly retryAfterMs: number
  /** null: not limited. */
  readonly requests: LimitState | null
  /** null: not limited. */
  readonly tokens: LimitState | null
}

/** Tokens of one day, counted from the epoch. */
export interface DayUse {
  readonly day: number
  readonly tokens: number
}

const DAY_MS = 86_400_000
/** Below so many keys none is dropped. */
const MIN_SWEEP_KEYS = 1_000
/** Lease of a reservation that has none, ms. */
const LAPSE_MS = 3_600_000
/** Retry time of a key with all its concurrent requests running, ms: requests end at any time. */
const CONCURRENT_RETRY_MS = 1_000

interface Open {
  readonly tokens: number
  readonly at: number
  readonly leaseMs: number
  /** When it was reserved or last renewed. */
  readonly heardAt: number
}

class KeyUse {
  readonly requests = new MinuteWindow()
  readonly tokens = new MinuteWindow()
  /** The one that was renewed longest ago first. */
  readonly open = new Map<string, Open>()
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
  reserve({ key, id, limits, tokens, leaseMs = LAPSE_MS }: Reservation, now: number): LimitAnswer {
    const use = this.#useOf(key, now)
    if (use.open.has(id)) return answerOf(use, limits, { exceeded: null, retryAfterMs: 0 }, now)
    const cost = costOf(limits, tokens)
    const refusal = refusalOf(use, limits, cost, now)
    if (refusal !== null) return answerOf(use, limits, refusal, now)
    use.requests.add(1, now, now)
    use.tokens.add(cost, now, now)
    use.dayTokens += cost
    use.open.set(id, { tokens: cost, at: now, leaseMs, heardAt: now })
    return answerOf(use, limits, { exceeded: null, retryAfterMs: 0 }, now)
  }

  /** Begins the lease of a running request anew. */
  renew({ key, id }: RunningRequest, now: number): void {
    const open = this.#keys.get(key)?.open
    const one = open?.get(id)
    if (open === undefined || one === undefined) return
    open.delete(id)
    open.set(id, { ...one, heardAt: now })
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
  for (const [id, { heardAt, leaseMs }] of use.open) {
    if (now - heardAt < leaseMs) break
    use.open.delete(id)
  }
}

function rollDay(use: KeyUse, now: number): void {
  const day = dayOf(now)
  if (day <= use.day) return
  use.day = day
  use.dayTokens = 0
}

const dayOf = (at: number): number => Math.floor(at / DAY_MS)

/** Largest cost of a request, tokens: a client may ask for 1e400 of them. */
const MOST_TOKENS = 1e12

/**
 * Tokens that a request reserves. A request that is larger than a whole limit is admitted when nothing of the limit is
 * used.
 */
export const costOf = ({ tokensPerMin, tokensPerDay }: KeyLimits, tokens: number): number =>
  Math.ceil(Math.min(tokens, tokensPerMin ?? MOST_TOKENS, tokensPerDay ?? MOST_TOKENS, MOST_TOKENS))

type Refused = Pick<LimitAnswer, 'exceeded' | 'retryAfterMs'>

function refusalOf(use: KeyUse, limits: KeyLimits, cost: number, now: number): Refused | null {
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
  refused: Refused,
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
