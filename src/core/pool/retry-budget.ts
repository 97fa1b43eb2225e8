import type { Admission, Placement, SplitConfig } from '../contract/contract.ts'
import type { EarlyLegRole } from '../contract/legs.ts'

/** Exact count of events in the last `windowMs`, in a ring buffer that grows with the busiest window. */
export class SlidingCount {
  readonly #windowMs: number
  #times = new Float64Array(16)
  #head = 0
  #size = 0

  constructor(windowMs: number) {
    this.#windowMs = windowMs
  }

  /** Counts an event. An earlier `now` is treated as the latest one. */
  add(now: number): void {
    this.count(now)
    if (this.#size === this.#times.length) this.#grow()
    const last = this.#size === 0 ? now : this.#at(this.#size - 1)
    this.#times[(this.#head + this.#size) % this.#times.length] = Math.max(now, last)
    this.#size += 1
  }

  count(now: number): number {
    while (this.#size > 0 && this.#at(0) <= now - this.#windowMs) {
      this.#head = (this.#head + 1) % this.#times.length
      this.#size -= 1
    }
    return this.#size
  }

  #at(index: number): number {
    return this.#times[(this.#head + index) % this.#times.length]!
  }

  #grow(): void {
    const grown = new Float64Array(this.#times.length * 2)
    for (let index = 0; index < this.#size; index++) grown[index] = this.#at(index)
    this.#times = grown
    this.#head = 0
  }
}

const WINDOW_MS = 10_000

/**
 * Retry budget: a share of recent requests plus a minimum per second, over ten seconds. It limits the load on a
 * failing fleet, and a quiet pool can still retry. After tower's retry budget (tower/src/retry/budget). Hedges get what
 * retries leave: a retry saves a request, a hedge only time.
 */
export class RetryBudget {
  readonly #requests = new SlidingCount(WINDOW_MS)
  readonly #retries = new SlidingCount(WINDOW_MS)
  readonly #hedges = new SlidingCount(WINDOW_MS)

  /** Share of the minimum per second, 0..1: less than 1 if several processes send requests. */
  fraction = 1

  request(now: number): void {
    this.#requests.add(now)
  }

  retry(now: number, hedge = false): void {
    const count = hedge ? this.#hedges : this.#retries
    count.add(now)
  }

  /** Number of requests in the window of ten seconds. */
  recent(now: number): number {
    return this.#requests.count(now)
  }

  /** Whether one more retry or hedge is allowed. `share` is of first attempts; `minPerS` is per second. */
  allows(now: number, settings: { readonly share: number; readonly minPerS: number }, hedge = false): boolean {
    const allowed = settings.share * this.#requests.count(now) + (this.fraction * settings.minPerS * WINDOW_MS) / 1000
    return this.#retries.count(now) + (hedge ? this.#hedges.count(now) : 0) + 1 <= allowed
  }
}

/** Whether an earlier attempt caused work on an engine. */
export const isRetry = ({ attempt, moved }: Admission): boolean => attempt > 0 && moved !== true

/** Whether the placement repeats work of a failed attempt. */
export function repeats(admission: Admission, placement: Placement): boolean {
  const { failedLegs } = admission
  return isRetry(admission) && (failedLegs === undefined || legsOf(placement).some((leg) => failedLegs.includes(leg)))
}

function legsOf(placement: Placement): readonly EarlyLegRole[] {
  if (placement.kind === 'whole') return []
  if (placement.kind === 'split') return ['prefill']
  return placement.prefill === null ? ['encode'] : ['encode', 'prefill']
}

/** Returns the request without the legs that failed; null: every placement would be a retry. */
export function withoutFailedLegs(admission: Admission, { fallback }: SplitConfig): Admission | null {
  const { failedLegs } = admission
  if (failedLegs === undefined || (failedLegs.includes('prefill') && fallback === 'fail')) return null
  return {
    ...admission,
    ...(failedLegs.includes('prefill') ? { unsplittable: 'the retry budget is spent' } : {}),
    ...(failedLegs.includes('encode') ? { encodeItems: 0 } : {}),
  }
}
