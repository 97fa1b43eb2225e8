import type { Admission } from '../contract/admission.ts'
import type { Role, SloConfig } from '../contract/pool-config.ts'
import type { Refusal } from '../contract/refusal.ts'
import { CapacityChecks } from './capacity-checks.ts'
import { rateSlope } from './rate-slope.ts'
import { type RoleWork, WorkSums } from './request-mix.ts'

const SLICE_MS = 10_000
const MINUTE_MS = 60_000

/** Five minutes, and the latest one: the higher rate counts, so that growth is seen soon and a decline is awaited. */
const SLICES = 30
const RECENT_SLICES = 6

/** Minimum wait that an objective allows, seconds: engines count as idle up to it. */
const MIN_SLACK_S = 0.1

interface Slice {
  readonly at: number
  arrivals: number
  /** Requests that were refused, or whose first token was late. */
  missed: number
  /** Requests with known work. */
  sampled: number
  readonly work: Map<Role, WorkSums>
}

/** Arrivals of the last minutes. */
export interface ArrivalRates {
  readonly requestsPerS: number
  /** Rise, requests per second per second; 0: none beyond noise. */
  readonly slopePerS2: number
  /** Work of requests of the last minutes, or of the last ones seen. Roles without work are absent. */
  readonly roles: ReadonlyMap<Role, WorkSums>
  /** Requests of that work. 0: none was ever seen. */
  readonly sampled: number
}

/** Counts requests of a pool with an objective, admitted and refused, and their work. */
export class Arrivals {
  slo: SloConfig
  /** Checks of the capacity that was computed from these arrivals. */
  readonly checks = new CapacityChecks((minuteAt) => this.#minute(minuteAt))
  readonly #since: number
  readonly #slices: Slice[] = []

  constructor(slo: SloConfig, now: number) {
    this.slo = slo
    this.#since = now
  }

  /** Counts requests that found no room, and whose work is unknown. */
  add(requests: number, now: number): void {
    const slice = this.#slice(now)
    slice.arrivals += requests
    slice.missed += requests
  }

  /** Counts an admitted request whose first token came later than the objective. */
  late(now: number): void {
    this.#slice(now).missed += 1
  }

  /** Counts an admitted request. Its parts go to engines of these roles. */
  booked(parts: Iterable<readonly [Role, RoleWork]>, now: number): void {
    this.#slice(now).arrivals += 1
    this.sampled(parts, now)
  }

  /** Records the work of a request without counting it: `refused` counts it. */
  sampled(parts: Iterable<readonly [Role, RoleWork]>, now: number): void {
    const slice = this.#slice(now)
    slice.sampled += 1
    for (const [role, work] of parts) sumsOf(slice.work, role).add(work)
  }

  /** Counts a request that is refused for good. Others come again, or their client set a deadline of its own. */
  refused({ reason, limit, mayWait, mayPanic }: Refusal, { attempt }: Admission, now: number): void {
    const isFinal = mayWait !== true && mayPanic !== true && attempt === 0
    if (isFinal && reason !== 'unconfigured' && limit !== 'deadline') this.add(1, now)
  }

  /** Time for which the first token of a request may wait, seconds. */
  slackS(promptTokens: number, prefillS: number): number {
    const { ttftMs, ttftMsPer1kTokens } = this.slo
    if (ttftMs === null) return Infinity
    const budgetMs = ttftMs + ((ttftMsPer1kTokens ?? 0) * promptTokens) / 1000
    return Math.max(MIN_SLACK_S, budgetMs / 1000 - prefillS)
  }

  rates(now: number): ArrivalRates {
    const current = sliceAt(now)
    const recent = this.#slices.filter(({ at }) => at > current - SLICES * SLICE_MS)
    const withWork = recent.filter(({ sampled }) => sampled > 0)
    const last = this.#slices.findLast(({ sampled }) => sampled > 0)
    const known = withWork.length > 0 || last === undefined ? withWork : [last]
    const roles = new Map<Role, WorkSums>()
    for (const { work } of known) for (const [role, sums] of work) sumsOf(roles, role).addAll(sums)
    return {
      requestsPerS: Math.max(this.#rate(recent, RECENT_SLICES, now), this.#rate(recent, SLICES, now)),
      slopePerS2: this.#slope(recent, current),
      roles,
      sampled: known.reduce((sum, one) => sum + one.sampled, 0),
    }
  }

  /** Counts of a minute. null: it began before the pool, or its slices are gone. */
  #minute(from: number): { readonly arrivals: number; readonly missed: number } | null {
    const last = this.#slices.at(-1)
    if (from < this.#since || (last !== undefined && from <= last.at - SLICES * SLICE_MS)) return null
    const own = this.#slices.filter(({ at }) => at >= from && at < from + MINUTE_MS)
    const sum = (count: 'arrivals' | 'missed'): number => own.reduce((total, slice) => total + slice[count], 0)
    return { arrivals: sum('arrivals'), missed: sum('missed') }
  }

  /** Mean rate over the last slices. */
  #rate(recent: readonly Slice[], slices: number, now: number): number {
    const from = sliceAt(now) - (slices - 1) * SLICE_MS
    const arrivals = recent.reduce((sum, slice) => sum + (slice.at >= from ? slice.arrivals : 0), 0)
    return (1000 * arrivals) / Math.max(SLICE_MS, now - Math.max(from, this.#since))
  }

  #slope(recent: readonly Slice[], current: number): number {
    const from = Math.max(current - (SLICES - 1) * SLICE_MS, sliceAt(this.#since) + SLICE_MS)
    const counts: number[] = Array.from({ length: Math.max(0, (current - from) / SLICE_MS) }, () => 0)
    for (const { at, arrivals } of recent) {
      const index = (at - from) / SLICE_MS
      if (index in counts) counts[index] = arrivals
    }
    return rateSlope(counts, SLICE_MS / 1000)
  }

  #slice(now: number): Slice {
    const at = sliceAt(now)
    const last = this.#slices.at(-1)
    // A clock that went back adds to the last slice.
    if (last !== undefined && at <= last.at) return last
    const slice: Slice = { at, arrivals: 0, missed: 0, sampled: 0, work: new Map() }
    this.#slices.push(slice)
    if (this.#slices.length > SLICES) this.#forgetOldest()
    return slice
  }

  /** The last slice with work stays: without traffic, it is what is known. */
  #forgetOldest(): void {
    const last = this.#slices.findLastIndex(({ sampled }) => sampled > 0)
    this.#slices.splice(last === 0 ? 1 : 0, 1)
  }
}

const sliceAt = (now: number): number => now - (now % SLICE_MS)

function sumsOf(of: Map<Role, WorkSums>, role: Role): WorkSums {
  const known = of.get(role)
  if (known !== undefined) return known
  const sums = new WorkSums()
  of.set(role, sums)
  return sums
}
