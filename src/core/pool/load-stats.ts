import type { Signal } from '../routing/policy.ts'
import { type EarlyLegRole, endsAtFirstToken, type LegRole } from '../contract/legs.ts'
import type { BookingRef, EngineRef, Leg, LegDone } from './leg.ts'
import type { Admission, EngineDigest, EngineSpec, EngineStats, PoolConfig, Role } from '../contract/contract.ts'
import { SlidingCount } from './sliding-count.ts'

const ARRIVALS_WINDOW_MS = 60_000
/** Half-life of recent work, milliseconds: requests minutes apart still rotate, and old bursts do not matter. */
const RECENT_WORK_HALF_LIFE_MS = 30_000
/** Probe intervals after which a scrape is stale. */
const STALE_AFTER_INTERVALS = 3

/** Source of the cached tokens of the prompt that is booked. */
export interface CachedReader {
  cached(engine: EngineRef): { readonly total: number }
}

interface EngineLoad {
  readonly engine: EngineRef
  work: Work
  requests: number
  readonly arrivals: SlidingCount
  /** Values at `recentAt`. */
  recentWork: number
  recentNewTokens: number
  recentAt: number
  turn: number
  stats: { readonly queue: number; readonly at: number } | null
}

/** Signals of `LoadStats`; all others come from the ledger. */
export const LOAD_SIGNALS: readonly Signal[] = [
  'requests',
  'arrivals',
  'recentWork',
  'recentNewTokens',
  'turn',
  'reportedQueue',
  'rttS',
]

/**
 * Load of each engine without regard to prompt blocks: requests, arrivals, recent work, scraped queue. Calls are
 * synchronous, `now` is in milliseconds since the epoch: `configure` and `engineAdded` first; per booking one `book`,
 * at most one `firstToken`, one `release`.
 */
export class LoadStats {
  readonly #loads: (EngineLoad | undefined)[] = []
  /** Keys of bookings whose first token has not come. */
  readonly #unprefilled = new Set<string>()
  /** Roles of them that ended early. */
  readonly #doneParts = new Map<string, ReadonlySet<EarlyLegRole>>()
  #staleAfterMs = 0
  /**
   * Virtual time of the last served engine: new engines start here instead of catching up. One per kind of work, so
   * that the turns of a prefill engine do not affect the weights of decode engines.
   */
  readonly #turnNow = { encode: 0, prefill: 0, answer: 0 }

  configure(pool: PoolConfig): void {
    this.#staleAfterMs = STALE_AFTER_INTERVALS * pool.statsIntervalMs
    // After a change of role, the engine starts at the virtual time of its new role.
    for (const load of this.#loads)
      if (load !== undefined && load.work !== workFor(load.engine.spec.role)) this.#takeTurn(load)
  }

  engineAdded(engine: EngineRef): void {
    const load: EngineLoad = {
      engine,
      work: 'answer',
      requests: 0,
      arrivals: new SlidingCount(ARRIVALS_WINDOW_MS),
      recentWork: 0,
      recentNewTokens: 0,
      recentAt: 0,
      turn: 0,
      stats: null,
    }
    this.#takeTurn(load)
    this.#loads[engine.slot] = load
  }

  engineForgotten(engine: EngineRef): void {
    this.#loads[engine.slot] = undefined
  }

  observed(engine: EngineRef, stats: EngineStats, now: number): void {
    this.#load(engine).stats = { queue: stats.running + stats.waiting, at: now }
  }

  /** @param reading reader of the decision that is booked; absent: nothing is known to be cached */
  book(booking: BookingRef, now: number, reading?: CachedReader): void {
    this.#unprefilled.add(booking.key)
    for (const leg of booking.legs) {
      const load = this.#load(leg.engine)
      load.requests += 1
      load.arrivals.add(now)
      load.recentWork = decayed(load.recentWork, load, now) + workOf(booking.admission, 0)
      load.recentNewTokens =
        decayed(load.recentNewTokens, load, now) + workOf(booking.admission, reading?.cached(leg.engine).total ?? 0)
      load.recentAt = now
      const work = workFor(leg.part)
      this.#turnNow[work] = Math.max(this.#turnNow[work], load.turn)
      load.turn = this.#turnNow[work] + 1 / weightOf(leg.engine.spec)
    }
  }

  legDone(booking: BookingRef, { part }: LegDone): void {
    if (!this.#unprefilled.has(booking.key)) return
    const done = this.#doneParts.get(booking.key)
    if (done?.has(part) === true) return
    this.#doneParts.set(booking.key, new Set(done).add(part))
    for (const leg of booking.legs) if (leg.part === part) this.#load(leg.engine).requests -= 1
  }

  firstToken(booking: BookingRef): void {
    if (!this.#unprefilled.delete(booking.key)) return
    for (const leg of booking.legs) if (endsAtFirstToken(leg.part)) this.#endLeg(booking.key, leg)
    this.#doneParts.delete(booking.key)
  }

  release(booking: BookingRef): void {
    const prefilled = !this.#unprefilled.delete(booking.key)
    for (const leg of booking.legs) {
      if (prefilled && endsAtFirstToken(leg.part)) continue
      this.#endLeg(booking.key, leg)
    }
    this.#doneParts.delete(booking.key)
  }

  digest(engine: EngineRef): Pick<EngineDigest, 'requests'> {
    return { requests: this.#load(engine).requests }
  }

  /** Writes `LOAD_SIGNALS` into the engines' rows. NaN: missing, as for a scrape that is too old. */
  writeSignals(engines: readonly EngineRef[], now: number): void {
    for (let at = 0; at < engines.length; at++) {
      const { signals, spec } = engines[at]!
      const load = this.#load(engines[at]!)
      signals.requests = load.requests
      signals.arrivals = load.arrivals.count(now)
      signals.recentWork = decayed(load.recentWork, load, now)
      signals.recentNewTokens = decayed(load.recentNewTokens, load, now)
      signals.turn = load.turn
      signals.reportedQueue = load.stats !== null && now - load.stats.at <= this.#staleAfterMs ? load.stats.queue : NaN
      signals.rttS = spec.rttMs / 1000
    }
  }

  #takeTurn(load: EngineLoad): void {
    load.work = workFor(load.engine.spec.role)
    load.turn = this.#turnNow[load.work]
  }

  #endLeg(key: string, { engine, part }: Leg): void {
    if (endsAtFirstToken(part) && this.#doneParts.get(key)?.has(part) === true) return
    this.#load(engine).requests -= 1
  }

  #load(engine: EngineRef): EngineLoad {
    const load = this.#loads[engine.slot]
    if (load === undefined) throw new Error(`engine "${engine.spec.id}" is in no books; engineAdded comes first`)
    return load
  }
}

type Work = 'encode' | 'prefill' | 'answer'

function workFor(partOrRole: LegRole | Role): Work {
  return partOrRole === 'encode' || partOrRole === 'prefill' ? partOrRole : 'answer'
}

/** Work of a request: its uncached tokens; an empty prompt counts 1. */
function workOf({ promptTokens }: Admission, cachedTokens: number): number {
  return 1 + Math.max(0, promptTokens - cachedTokens)
}

function decayed(work: number, { recentAt }: EngineLoad, now: number): number {
  const elapsedMs = Math.max(0, now - recentAt)
  return work * 2 ** (-elapsedMs / RECENT_WORK_HALF_LIFE_MS)
}

function weightOf(spec: EngineSpec): number {
  return spec.weight > 0 ? spec.weight : 1
}
