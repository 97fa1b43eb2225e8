import type { EngineStats, PausedEngine } from '../../contract/engine-signal.ts'
import type { Usage } from '../../contract/outcome.ts'
import type { EngineSpec } from '../../contract/pool-config.ts'
import type { EngineDigest } from '../../contract/pool-digest.ts'
import type { AdapterResidents } from './adapter-residents.ts'
import type { EngineRef } from '../booking-ref.ts'
import type { EngineEstimators } from '../estimators/engine-estimators.ts'
import type { EngineLoad } from '../engine-load.ts'
import { type Circuit, closed } from './circuit.ts'
import { AbandonedRequests } from '../condition/affected-requests.ts'
import { type ConditionState, wellSince } from '../condition/engine-condition.ts'
import { EngineTrials } from '../condition/engine-trials.ts'
import { EngineSignals } from '../signals/engine-signals.ts'
import { OwedTokens } from '../condition/owed-tokens.ts'
import { ReportedWork } from '../condition/reported-work.ts'
import { StalledStreams } from '../condition/stalled-streams.ts'
import { UsualPace } from '../condition/usual-pace.ts'
import { StateChanges } from './state-changes.ts'

/** Share of a new sample in the decayed mean of TTFT. */
const TTFT_SHARE = 0.1

/** Age from which reported values are unknown, ms. */
const STATS_VALID_MS = 60_000

/** Number of TTFTs kept for the dashboard. */
const TTFTS_KEPT = 40

/** A request's share in the decayed sums behind the hit rate. */
const HIT_SHARE = 0.03

/** Part of one process in the limits of an engine. */
export interface TrafficShare {
  /** Share of the traffic, 0..1. */
  readonly fraction: number
  /** Requests of the other processes in flight. */
  readonly elsewhere: number
}

/** State of one engine. */
export class EngineState implements EngineRef {
  readonly slot: number
  readonly signals: EngineSignals
  readonly load: EngineLoad
  readonly estimators: EngineEstimators
  spec: EngineSpec
  circuit: Circuit = closed
  /** Result of the last probe; engines count as healthy until a probe fails. */
  healthy = true
  asleep = false
  /** Start of the check that `asleep` is from, ms since the epoch: results of earlier ones may come later. */
  sleepSeenAt = -Infinity
  draining = false
  /** The operator holds requests for it back; null: no. */
  paused: PausedEngine | null = null
  /** When it was last let in again, ms since the epoch: earlier checks may have found it paused. */
  resumedAt = -Infinity
  /** Time at which streams leave the draining engine, ms since the epoch; undefined: never. */
  moveAt: number | undefined = undefined
  /** Removed from the configuration; kept until its last booking ends. */
  removed = false
  stats: { readonly value: EngineStats; readonly at: number } | null = null
  probedAt = 0
  /** Why the last probe failed; undefined: it did not. */
  problem: string | undefined = undefined
  version: string | undefined = undefined
  /** Longest prompt with output by its last good probe, tokens; null: not reported. */
  reportedContextTokens: number | null = null
  /** Adapters that it had loaded at its last good probe; null: not reported. */
  loadedAdapters: readonly string[] | null = null
  /** Clients may request the adapters that it reports. */
  offersAdapters = false
  /** Adapters that gateways load on its server; null: none. */
  residents: AdapterResidents | null = null
  lastFailure: EngineDigest['lastFailure'] = undefined
  /** When any response to a client last produced output, milliseconds since the epoch. */
  outputAt = -Infinity
  /** The same, or when it last answered a trial. */
  movedAt = -Infinity
  readonly owed = new OwedTokens()
  readonly streams = new StalledStreams()
  readonly reported = new ReportedWork()
  condition: ConditionState = wellSince(0)
  /** When it was last found well. */
  wellAt = -Infinity
  readonly changes = new StateChanges()
  /** It is wedged and gets no requests. */
  isTakenOut = false
  /** It is many times slower than its siblings, and gets requests only if no other engine can serve them. */
  isTooSlow = false
  readonly usualPace = new UsualPace()
  /** Comparisons of its answers with those of others; undefined: none. */
  compared: EngineDigest['compared'] = undefined
  /** It gets no requests, because its answers stand out. */
  isQuarantined = false
  /** Its answers may not go on. Ends with the pause. */
  isFenced = false
  /** When its answers were ended last, ms since the epoch. */
  fencedAt = -Infinity
  /** Since when it serves no requests; null: it does. */
  downSince: number | null = null
  readonly trials = new EngineTrials()
  /** Requests whose client left before the first token. */
  readonly abandoned = new AbandonedRequests()
  /** Requests that another engine answered because this one was wedged. */
  rescuedTotal = 0
  ttftMs: number | null = null
  requestsTotal = 0
  failuresTotal = 0
  /** Prompts that it completed for this process, if it is a rank. */
  servedTotal = 0
  /** Failures that did not open the circuit because of a limit of ejection. */
  ejectionsWithheld = 0
  /** Part of the totals that came from a snapshot. */
  countedBefore = { requests: 0, failures: 0 }
  readonly recentTtftMs: number[] = []
  /** Decayed sums. Their ratio weights prompts by length. */
  #promptTokens = 0
  #cachedTokens = 0
  /** Bookings with the engine in any role. */
  bookings = 0
  /** Part of this process in the limits that several processes share. null: it has all. */
  share: TrafficShare | null = null

  constructor(slot: number, spec: EngineSpec, { load, estimators }: Pick<EngineRef, 'load' | 'estimators'>) {
    this.slot = slot
    this.spec = spec
    this.load = load
    this.estimators = estimators
    this.signals = new EngineSignals(spec.id)
  }

  /** Longest prompt with output, tokens; null: unknown. */
  get contextTokens(): number | null {
    return this.spec.contextTokens ?? this.reportedContextTokens
  }

  /** Values of its last report; null: it has none, or it is too old. */
  statsAt(now: number): EngineStats | null {
    return this.stats !== null && now - this.stats.at < STATS_VALID_MS ? this.stats.value : null
  }

  /** Whether its output is overdue and nothing moves. */
  get isSuspect(): boolean {
    return this.condition.condition === 'suspect' || this.condition.condition === 'wedged'
  }

  /** Whether it is out of use although it answers. */
  get isHeldOut(): boolean {
    return this.isTakenOut || this.isQuarantined || this.isTooSlow
  }

  /** Whether it gets no new requests: removed, draining, or weight 0. */
  get isLeaving(): boolean {
    return this.removed || this.draining || this.spec.weight === 0
  }

  /** Records output of any response to a client. */
  moved(at: number): void {
    this.outputAt = Math.max(this.outputAt, at)
    this.answeredTrial(at)
  }

  answeredTrial(at: number): void {
    this.movedAt = Math.max(this.movedAt, at)
    this.owed.moved()
  }

  sawTtft(ms: number): void {
    this.ttftMs = this.ttftMs === null ? ms : this.ttftMs + TTFT_SHARE * (ms - this.ttftMs)
    this.recentTtftMs.push(ms)
    if (this.recentTtftMs.length > TTFTS_KEPT) this.recentTtftMs.shift()
  }

  /** Records the cached tokens that the engine reported. */
  sawUsage({ promptTokens, cachedTokens }: Usage): void {
    if (cachedTokens === null) return
    this.#promptTokens += promptTokens - HIT_SHARE * this.#promptTokens
    this.#cachedTokens += Math.min(cachedTokens, promptTokens) - HIT_SHARE * this.#cachedTokens
  }

  /** Share of prompt tokens that were cached, 0..1; null: never reported. */
  get hitRate(): number | null {
    return this.#promptTokens > 0 ? this.#cachedTokens / this.#promptTokens : null
  }
}
