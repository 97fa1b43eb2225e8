import type { Signal } from '../routing/policy.ts'
import { type EarlyLegRole, endsAtFirstToken, type LegRole } from '../contract/legs.ts'
import type { BookingRef, EngineRef, Leg, LegDone } from './ledger-entry.ts'
import type { Admission, EngineDigest, EngineSpec, PoolConfig, Role } from '../contract/contract.ts'
import { SlidingCount } from './retry-budget.ts'

/** Report of an engine about all its requests, whoever sent them. */
export interface EngineReport {
  readonly running: number
  readonly waiting: number
  /** KV blocks of running requests; null: not reported. */
  readonly usedBlocks: number | null
}

/**
 * Time by which an engine's report may be older than the bookings, milliseconds: a request that ended within it may
 * still be in the report.
 */
const REPORT_LAG_MS = 500
/** Maximum of ended sequences counted for one request. */
const MOST_ENDED = 64
/** Weight of the latest report: other sources' queues change between reports. */
const LATEST_SHARE = 0.5
/** Share of the capacity below which a difference in blocks is rounding: engines and gateway count partial blocks. */
const LEAST_BLOCK_SHARE = 0.02

/** Load of an engine from other sources. */
export interface Foreign {
  /** Running and waiting requests. */
  readonly requests: number
  /** Requests that wait for their prefill. */
  readonly waiting: number
  /** KV blocks. */
  readonly blocks: number
}

export const NO_FOREIGN_LOAD: Foreign = { requests: 0, waiting: 0, blocks: 0 }

/**
 * Estimate of an engine's load from other sources: what the engine reports beyond the gateway's own bookings. Without
 * other
 * sources it is exactly zero.
 */
export class ForeignLoad implements Foreign {
  readonly #ended = new SlidingCount(REPORT_LAG_MS)
  #own = 0
  #requests = 0
  #waiting = 0
  #blocks = 0
  #at = -Infinity

  /** Records own requests that the engine has from now on; parallel answers count each. */
  began(sequences: number): void {
    this.#own += sequences
  }

  ended(sequences: number, now: number): void {
    this.#own -= sequences
    for (let at = 0; at < Math.min(sequences, MOST_ENDED); at++) this.#ended.add(now)
  }

  /** @param activeBlocks the gateway's own part of the used blocks */
  observed({ running, waiting, usedBlocks }: EngineReport, activeBlocks: number, now: number): void {
    const reported = running + waiting
    const requests = Math.max(0, reported - this.#own - this.#ended.count(now))
    const foreignShare = reported === 0 ? 0 : requests / reported
    const share = this.#at === -Infinity ? 1 : LATEST_SHARE
    this.#requests += share * (requests - this.#requests)
    this.#waiting += share * (waiting * foreignShare - this.#waiting)
    const blocks = requests === 0 || usedBlocks === null ? 0 : usedBlocks - activeBlocks
    const isRounding = usedBlocks === null || blocks < LEAST_BLOCK_SHARE * usedBlocks
    this.#blocks += share * ((isRounding ? 0 : blocks) - this.#blocks)
    this.#at = now
  }

  /** Time of the last report, milliseconds; -Infinity: none. */
  get at(): number {
    return this.#at
  }

  get requests(): number {
    return this.#requests
  }

  get waiting(): number {
    return this.#waiting
  }

  get blocks(): number {
    return this.#blocks
  }
}

const ARRIVALS_WINDOW_MS = 60_000
/** Half-life of recent work, milliseconds: requests minutes apart still rotate, and old bursts do not matter. */
const RECENT_WORK_HALF_LIFE_MS = 30_000
/** Probe intervals after which a report is stale. */
const STALE_AFTER_INTERVALS = 3

/** Source of the cached tokens of the prompt that is booked. */
export interface CachedReader {
  cached(engine: EngineRef): { readonly total: number }
}

interface OwnBlocks {
  readonly activeBlocks: number
  /** Time of the report, milliseconds. */
  readonly at: number
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
  readonly foreign: ForeignLoad
}

/** Signals of `LoadStats`; all others come from the ledger. */
export const LOAD_SIGNALS: readonly Signal[] = [
  'requests',
  'arrivals',
  'recentWork',
  'recentNewTokens',
  'turn',
  'foreignRequests',
  'rttS',
]

/**
 * Load of each engine without regard to prompt blocks: requests, arrivals, recent work, load from other sources. Calls
 * are
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
      foreign: new ForeignLoad(),
    }
    this.#takeTurn(load)
    this.#loads[engine.slot] = load
  }

  engineForgotten(engine: EngineRef): void {
    this.#loads[engine.slot] = undefined
  }

  /** Records what the engine reports about all its requests. */
  observed(engine: EngineRef, report: EngineReport, { activeBlocks, at }: OwnBlocks): void {
    this.#load(engine).foreign.observed(report, activeBlocks, at)
  }

  /** Returns the engine's load from other sources; zero without a recent report. */
  foreign(engine: EngineRef, now: number): Foreign {
    const { foreign } = this.#load(engine)
    return now - foreign.at <= this.#staleAfterMs ? foreign : NO_FOREIGN_LOAD
  }

  /** @param reading reader of the decision that is booked; absent: nothing is known to be cached */
  book(booking: BookingRef, now: number, reading?: CachedReader): void {
    this.#unprefilled.add(booking.key)
    for (const leg of booking.legs) {
      const load = this.#load(leg.engine)
      load.requests += 1
      load.foreign.began(booking.admission.sequences ?? 1)
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

  legDone(booking: BookingRef, { part }: LegDone, now: number): void {
    if (!this.#unprefilled.has(booking.key)) return
    const done = this.#doneParts.get(booking.key)
    if (done?.has(part) === true) return
    this.#doneParts.set(booking.key, new Set(done).add(part))
    for (const leg of booking.legs) if (leg.part === part) this.#left(booking, leg, now)
  }

  firstToken(booking: BookingRef, now: number): void {
    if (!this.#unprefilled.delete(booking.key)) return
    for (const leg of booking.legs) if (endsAtFirstToken(leg.part)) this.#endLeg(booking, leg, now)
    this.#doneParts.delete(booking.key)
  }

  release(booking: BookingRef, now: number): void {
    const prefilled = !this.#unprefilled.delete(booking.key)
    for (const leg of booking.legs) {
      if (prefilled && endsAtFirstToken(leg.part)) continue
      this.#endLeg(booking, leg, now)
    }
    this.#doneParts.delete(booking.key)
  }

  digest(engine: EngineRef): Pick<EngineDigest, 'requests'> {
    return { requests: this.#load(engine).requests }
  }

  /** Writes `LOAD_SIGNALS` into the engines' rows. */
  writeSignals(engines: readonly EngineRef[], now: number): void {
    for (let at = 0; at < engines.length; at++) {
      const { signals, spec } = engines[at]!
      const load = this.#load(engines[at]!)
      signals.requests = load.requests
      signals.arrivals = load.arrivals.count(now)
      signals.recentWork = decayed(load.recentWork, load, now)
      signals.recentNewTokens = decayed(load.recentNewTokens, load, now)
      signals.turn = load.turn
      signals.foreignRequests = this.foreign(engines[at]!, now).requests
      signals.rttS = spec.rttMs / 1000
    }
  }

  #takeTurn(load: EngineLoad): void {
    load.work = workFor(load.engine.spec.role)
    load.turn = this.#turnNow[load.work]
  }

  #endLeg(booking: BookingRef, leg: Leg, now: number): void {
    if (endsAtFirstToken(leg.part) && this.#doneParts.get(booking.key)?.has(leg.part) === true) return
    this.#left(booking, leg, now)
  }

  #left({ admission }: BookingRef, { engine }: Leg, now: number): void {
    const load = this.#load(engine)
    load.requests -= 1
    load.foreign.ended(admission.sequences ?? 1, now)
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
