/**
 * The seam between the cluster's state machine and what it keeps books of. `ClusterState` decides who may be
 * chosen and tells every `Books` what happened; each `Books` answers for the signals it names. Where a
 * policy reads nothing that depends on the prompt's blocks, nobody looks them up.
 */
import type { KvEventDelta, KvEventDeltaState } from '../kv-events/delta.ts'
import type { Signal } from '../routing/policy.ts'
import type {
  Admission,
  EngineDigest,
  EngineSpec,
  EngineStats,
  Outcome,
  Placement,
  PoolConfig,
  StageTimes,
  Usage,
} from '../contract/contract.ts'
import type { EngineEstimate } from '../contract/region-digest.ts'
import type { EngineSignals } from './engine-signals.ts'

/** An engine as the books see it. `slot` is a small number of its own while the books know the engine, then reused. */
export interface EngineRef {
  readonly slot: number
  /** Replaced when a new configuration describes the engine anew; read it, do not keep it. */
  readonly spec: EngineSpec
  /** Where signals are written for the policies. */
  readonly signals: EngineSignals
}

/** What one engine does for a booking. `encode` and `prefill` end at the first token, the others with the booking. */
export type LegRole = 'whole' | 'encode' | 'prefill' | 'decode'

/** Parts that end before the first token. */
export type EarlyLegRole = 'encode' | 'prefill'

export interface LegDone {
  readonly part: EarlyLegRole
  readonly stages: StageTimes
  /** What the leg's engine counted, of a prefill. */
  readonly usage?: Usage | null
}

export interface Leg {
  readonly engine: EngineRef
  readonly part: LegRole
}

/** A booking, as the books are told of it. `key` is unique among live bookings. */
export interface BookingRef {
  readonly key: string
  readonly admission: Admission
  readonly legs: readonly Leg[]
}

/**
 * One set of books. All calls are synchronous, `now` is in milliseconds since the epoch, and the caller keeps order:
 * `configure` and `engine` before anything else, `book` once for a key, then at most one `firstToken`, any number of
 * `progress`, exactly one `release`. No call throws for what engines or clients did.
 */
export interface SignalProvider {
  /** The signals this one answers for. */
  readonly answers: readonly Signal[]
  /** A new configuration was adopted, which known engines' `spec` shows already; `engineAdded` follows for engines that are new. Bookings go on. */
  configure(pool: PoolConfig): void
  engineAdded(engine: EngineRef, now: number): void
  /** The engine was removed and its last booking has ended: its slot will be reused. */
  engineForgotten(engine: EngineRef): void
  /** It answers probes again. Absent: of no interest here. */
  revived?(engine: EngineRef): void
  /** A scrape of the engine's metrics. */
  observed(engine: EngineRef, stats: EngineStats, now: number): void
  /** What the engine's own events say of its cache. Absent: of no interest here. */
  applyKvEvents?(engine: EngineRef, feed: KvEventDelta, now: number): KvEventDeltaState
  /**
   * Also called for a booking restored or resumed; then `firstToken` and `progress` repeat what is known.
   * @param reading what these books read for the choice that was made just now; absent: there was none.
   */
  book(booking: BookingRef, now: number, reading?: Reading): void
  /** Legs of a part have answered before the first token: their engines are free. At most once a part. */
  legDone(booking: BookingRef, done: LegDone, now: number): void
  /** Also ends what `legDone` has not. */
  firstToken(booking: BookingRef, stages: StageTimes, now: number): void
  /** Output so far, in blocks: a total that only grows. */
  progress?(booking: BookingRef, outputBlocks: number, now: number): void
  /** After it nothing of the booking is left. `outcome` teaches: usage, cached tokens, stages. */
  release(booking: BookingRef, outcome: Outcome, now: number): void
  /** Starts reading for one request, and for these engines; what can be shared by all of them is computed once, on first use. */
  read(admission: Admission, now: number, engines: readonly EngineRef[]): Reading
  /** What a new prompt meets on the engine. Absent: it is not known here. */
  prospect?(engine: EngineRef, now: number): EngineEstimate
  /** Low lanes of blocks of prompts that engines hold, as `packFilter` takes them. Absent: no blocks are kept here. */
  sample?(limit: number): Uint32Array
  /** What the digest says of the engine. Fields left out are another's or unknown. */
  digest(engine: EngineRef, now: number): Partial<EngineDigest>
  /** Learned values worth keeping over an eviction, small and structured-cloneable. Absent: there is nothing. Bookings are kept elsewhere. */
  snapshot?(): unknown
  /** Takes back what `snapshot` gave, before any booking is restored; what another version gave is ignored. */
  restore?(data: unknown): void
}

/** Signals of the engines for one request at one moment. */
export interface Reading {
  /**
   * Writes a signal the books answer for, and what comes with it for little more, into the engines' seats. NaN:
   * missing, so the engine is no candidate for a policy that needs it. Cold caches and empty books are 0, not missing.
   */
  fill(signal: Signal): void
  /** What is expected of the engine for this request; kept in the decision and compared with what came. */
  forecast?(engine: EngineRef): Forecast
}

export interface Forecast {
  readonly ttftMs: number | null
  readonly cachedTokens: number | null
  /** From the end of a prefill on another engine to the first token on this one, milliseconds. */
  readonly handOverMs?: number
}

/** The engines a placement occupies, by id, with what each does. */
export function partsOf(placement: Placement): readonly { readonly engine: string; readonly part: LegRole }[] {
  switch (placement.kind) {
    case 'whole':
      return [{ engine: placement.engine, part: 'whole' }]
    case 'split':
      return [
        { engine: placement.prefill, part: 'prefill' },
        { engine: placement.decode, part: 'decode' },
      ]
    case 'staged':
      return [
        ...placement.encode.map((engine) => ({ engine, part: 'encode' as const })),
        ...(placement.prefill === null ? [] : [{ engine: placement.prefill, part: 'prefill' as const }]),
        { engine: placement.decode, part: placement.prefill === null ? ('whole' as const) : ('decode' as const) },
      ]
  }
}

/** Does the part end when the first token is there? */
export function endsAtFirstToken(part: LegRole): part is EarlyLegRole {
  return part === 'encode' || part === 'prefill'
}
