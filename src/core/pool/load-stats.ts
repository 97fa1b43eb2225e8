import { endsAtFirstToken, type LegRole } from '../contract/legs.ts'
import type { EngineLoad, Work } from './engine-load.ts'
import { type BookedLegs, type BookingRef, type EngineRef, hasLegEnded, type Leg, type LegDone } from './booking-ref.ts'
import type { Admission } from '../contract/admission.ts'
import type { EngineDigest } from '../contract/pool-digest.ts'
import type { EngineSpec, PoolConfig, Role } from '../contract/pool-config.ts'
import {
  type EngineReport,
  type ForeignEstimate,
  ForeignLoad,
  NO_FOREIGN_LOAD,
  type OwnLoad,
  type OwnPrefills,
} from './estimators/foreign-load.ts'
import { SlidingCount } from '../sliding-count.ts'

const ARRIVALS_WINDOW_MS = 60_000
/** Half-life of recent work, milliseconds: requests minutes apart still rotate, and old bursts do not matter. */
const RECENT_WORK_HALF_LIFE_MS = 30_000
/** Probe intervals after which a report is stale. */
const STALE_AFTER_INTERVALS = 3

/** Source of the cached tokens of the prompt that is booked. */
interface CachedReader {
  cached(engine: EngineRef): { readonly total: number }
}

/**
 * Load of each engine without regard to prompt blocks: requests, arrivals, recent work, load from other sources. Calls
 * are synchronous, `now` is in milliseconds since the epoch: `configure` first; per booking one
 * `addBooking`, at most one `legDone` per role and one `firstToken` after it, one `release`.
 */
export class LoadStats {
  #staleAfterMs = 0
  /**
   * Virtual time of the last served engine: new engines start here instead of catching up. One per kind of work, so
   * that the turns of a prefill engine do not affect the weights of decode engines.
   */
  readonly #turnNow = { encode: 0, prefill: 0, answer: 0 }

  configure(pool: PoolConfig, engines: readonly EngineRef[]): void {
    this.#staleAfterMs = STALE_AFTER_INTERVALS * pool.statsIntervalMs
    // After a change of role, the engine starts at the virtual time of its new role.
    for (const { load, spec } of engines) {
      const work = workFor(spec.role)
      if (load.work === work) continue
      load.work = work
      load.turn = this.#turnNow[work]
    }
  }

  /** Returns the load of a new engine. */
  engineLoad(spec: EngineSpec): EngineLoad {
    const work = workFor(spec.role)
    return {
      work,
      requests: 0,
      arrivals: new SlidingCount(ARRIVALS_WINDOW_MS),
      recentWork: 0,
      recentNewTokens: 0,
      recentAt: 0,
      turn: this.#turnNow[work],
      foreign: new ForeignLoad(),
    }
  }

  /** Records what the engine reports about all its requests. */
  observed(engine: EngineRef, report: EngineReport, own: OwnLoad): void {
    engine.load.foreign.observed(report, own)
  }

  /**
   * Returns the engine's load from other sources; zero without a recent report.
   * @param own the gateway's prefill work on the engine
   */
  foreign(engine: EngineRef, now: number, own: OwnPrefills): ForeignEstimate {
    const { foreign } = engine.load
    return this.#isRecent(foreign, now) ? foreign.estimate(now, own) : NO_FOREIGN_LOAD
  }

  /** Whether the engine has also served other sources lately. */
  isShared(engine: EngineRef): boolean {
    return engine.load.foreign.isPresent
  }

  /** Running and waiting requests of other sources. */
  foreignRequests(engine: EngineRef, now: number): number {
    const { foreign } = engine.load
    return this.#isRecent(foreign, now) ? foreign.requests(now) : 0
  }

  /** @param reading reader of the decision that is booked; absent: nothing is known to be cached */
  addBooking({ admission, legs }: BookedLegs, now: number, reading?: CachedReader): void {
    for (const leg of legs) {
      const { load } = leg.engine
      load.requests += 1
      load.foreign.began(admission.sequences ?? 1, now)
      load.arrivals.add(now)
      const kept = recentShare(load, now)
      load.recentWork = kept * load.recentWork + workOf(admission, 0)
      load.recentNewTokens = kept * load.recentNewTokens + workOf(admission, reading?.cached(leg.engine).total ?? 0)
      load.recentAt = now
      const work = workFor(leg.legRole)
      this.#turnNow[work] = Math.max(this.#turnNow[work], load.turn)
      load.turn = this.#turnNow[work] + 1 / weightOf(leg.engine.spec)
    }
  }

  legDone(booking: BookingRef, { legRole }: LegDone, now: number): void {
    for (const leg of booking.legs) if (leg.legRole === legRole) this.#left(booking, leg, now)
  }

  firstToken(booking: BookingRef, now: number): void {
    for (const leg of booking.legs) {
      const { engine, legRole } = leg
      if (legRole === 'whole') engine.load.foreign.firstToken(booking.bookedAt)
      if (endsAtFirstToken(legRole) && !booking.legsDone.includes(legRole)) this.#left(booking, leg, now)
    }
  }

  release(booking: BookingRef, now: number): void {
    for (const leg of booking.legs) if (!hasLegEnded(booking, leg.legRole)) this.#left(booking, leg, now)
  }

  digest(engine: EngineRef): Pick<EngineDigest, 'requests'> {
    return { requests: engine.load.requests }
  }

  /** Writes the counts into the engines' rows, all but the arrivals. */
  writeSignals(engines: readonly EngineRef[], now: number): void {
    for (let at = 0; at < engines.length; at++) {
      const { signals, spec, load } = engines[at]!
      signals.requests = load.requests
      const kept = recentShare(load, now)
      signals.recentWork = kept * load.recentWork
      signals.recentNewTokens = kept * load.recentNewTokens
      signals.turn = load.turn
      signals.foreignRequests = this.foreignRequests(engines[at]!, now)
      signals.rttS = spec.rttMs / 1000
    }
  }

  /** Writes `arrivals` into the engines' rows. Few policies read it, and the times of a minute are in no cache. */
  writeArrivals(engines: readonly EngineRef[], now: number): void {
    for (const { signals, load } of engines) signals.arrivals = load.arrivals.count(now)
  }

  #left({ admission }: BookingRef, { engine }: Leg, now: number): void {
    const { load } = engine
    load.requests -= 1
    load.foreign.ended(admission.sequences ?? 1, now)
  }

  #isRecent(foreign: ForeignLoad, now: number): boolean {
    return now - foreign.at <= this.#staleAfterMs
  }
}

function workFor(role: LegRole | Role): Work {
  return role === 'encode' || role === 'prefill' ? role : 'answer'
}

/** Work of a request: its uncached tokens; an empty prompt counts 1. */
function workOf({ promptTokens }: Admission, cachedTokens: number): number {
  return 1 + Math.max(0, promptTokens - cachedTokens)
}

/** Share of the recent work that counts now. */
function recentShare({ recentAt }: EngineLoad, now: number): number {
  return 2 ** (-Math.max(0, now - recentAt) / RECENT_WORK_HALF_LIFE_MS)
}

function weightOf(spec: EngineSpec): number {
  return spec.weight > 0 ? spec.weight : 1
}
