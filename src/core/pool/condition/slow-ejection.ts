import { isOpaque } from '../../contract/pool-config.ts'
import type { EngineState } from '../pool-engines/engine-state.ts'
import type { SiblingPaces } from './sibling-paces.ts'

/** Multiple of its own usual pace from which a slow engine is compared. */
const OWN_TIMES = 2.5

/** Multiple of its sibling's time, and further time in ms, from which an engine is taken out. */
const OUT_TIMES = 4
const OUT_MS = 50

/** Multiple up to which it is used again. */
const RETURN_TIMES = 2.5

/** Comparisons that decide together by the shortest time of each side, since any of them may wait in a queue. */
const NEEDED = 3
const KEPT = 5

/** Interval of comparisons of one engine, ms. */
const COMPARE_MS = 2_000

/** Time after which an engine is used again whatever comparisons show, ms. */
const MAX_OUT_MS = 300_000

/** Limit of both trials of a comparison, ms. */
export const COMPARISON_MS = 10_000

/** Two trials at the same time. */
interface Comparison {
  readonly sibling: EngineState
  readonly sentAt: number
  ownMs: number | null
  siblingMs: number | null
}

interface Suspicion {
  comparison: Comparison | null
  comparedAt: number
  /** Last times of both sides, ms. */
  readonly times: { readonly ownMs: number; readonly siblingMs: number }[]
  /** When it was taken out, ms since the epoch; null: it is in use. */
  outSince: number | null
}

interface TimedTrial {
  readonly sentAt: number
  /** null: it was not answered, which compares nothing. */
  readonly tookMs: number | null
}

interface SlowEjectionParts {
  /** Whether one more engine may be taken out of use. */
  readonly mayTakeOut: (engine: EngineState) => boolean
  /** Called after `isTooSlow` of the engine has changed. */
  readonly changed: (engine: EngineState, now: number) => void
}

/**
 * Takes engines out of use that are many times slower than their siblings and than they were. The paces that clients
 * see only begin comparisons: a one-token request of the gateway to the engine, and one to a sibling at the same time,
 * decide. So no client can eject an engine by requests that take long, and the load of the gateway delays both alike.
 */
export class SlowEjection {
  readonly #parts: SlowEjectionParts
  readonly #suspicions = new Map<EngineState, Suspicion>()

  constructor(parts: SlowEjectionParts) {
    this.#parts = parts
  }

  /** Begins and ends suspicions, after a look at the engine. */
  judge(engine: EngineState, paces: SiblingPaces, now: number): void {
    const known = this.#suspicions.get(engine)
    if (engine.isTooSlow && (now - known!.outSince! >= MAX_OUT_MS || !this.#parts.mayTakeOut(engine)))
      this.#change(engine, false, now)
    if (engine.isTooSlow) return
    if (!isFarBehind(engine, paces)) this.#suspicions.delete(engine)
    else if (known === undefined)
      this.#suspicions.set(engine, { comparison: null, comparedAt: now, times: [], outSince: null })
  }

  /** Discards what is known of an engine that may be another one now, such as after a restart. */
  forget(engine: EngineState, now: number): void {
    if (engine.isTooSlow) this.#change(engine, false, now)
    this.#suspicions.delete(engine)
  }

  /** Returns the engines that are to be tried now, in pairs. */
  due(engines: readonly EngineState[], now: number): readonly EngineState[] {
    if (this.#suspicions.size === 0) return []
    return [...this.#suspicions].flatMap(([engine, suspicion]) => {
      if (now - suspicion.comparedAt < COMPARE_MS || !mayBeTried(engine)) return []
      const sibling = idlest(engines.filter((one) => isReferenceFor(engine, one)))
      if (sibling === null) return []
      suspicion.comparison = { sibling, sentAt: now, ownMs: null, siblingMs: null }
      suspicion.comparedAt = now
      return [engine, sibling]
    })
  }

  /** Applies the result of a trial. */
  tried(engine: EngineState, { sentAt, tookMs }: TimedTrial, now: number): void {
    for (const [suspect, suspicion] of this.#suspicions) {
      const { comparison } = suspicion
      if (comparison === null || (engine !== suspect && engine !== comparison.sibling)) continue
      // It was sent while the engine was out of use.
      if (sentAt < comparison.sentAt) continue
      const ms = tookMs === null ? null : Math.max(0, tookMs - engine.spec.rttMs)
      if (ms === null) suspicion.comparison = null
      else if (engine === suspect) comparison.ownMs = ms
      else comparison.siblingMs = ms
      const { ownMs, siblingMs } = comparison
      if (ms === null || ownMs === null || siblingMs === null) continue
      suspicion.comparison = null
      suspicion.times.push({ ownMs, siblingMs })
      if (suspicion.times.length > KEPT) suspicion.times.shift()
      this.#compared(suspect, suspicion, now)
    }
  }

  #compared(engine: EngineState, { times }: Suspicion, now: number): void {
    const ownMs = Math.min(...times.map((one) => one.ownMs))
    const siblingMs = Math.min(...times.map((one) => one.siblingMs))
    const limitMs = (factor: number): number => Math.max(factor * siblingMs, siblingMs + OUT_MS)
    if (engine.isTooSlow) {
      if (ownMs <= limitMs(RETURN_TIMES)) this.#change(engine, false, now)
    } else if (times.length >= NEEDED && ownMs > limitMs(OUT_TIMES) && this.#parts.mayTakeOut(engine))
      this.#change(engine, true, now)
  }

  #change(engine: EngineState, isTooSlow: boolean, now: number): void {
    const suspicion = this.#suspicions.get(engine)!
    engine.isTooSlow = isTooSlow
    suspicion.outSince = isTooSlow ? now : null
    suspicion.times.length = 0
    this.#parts.changed(engine, now)
  }
}

/** Whether the engine is slower than its siblings and than it was. */
function isFarBehind(engine: EngineState, paces: SiblingPaces): boolean {
  const { condition, usualPace } = engine
  const own = paces.of(engine)
  return (
    condition.condition === 'slow' &&
    own !== null &&
    usualPace.seconds !== null &&
    own.seconds >= OWN_TIMES * usualPace.seconds
  )
}

function mayBeTried({ spec, healthy, asleep, isLeaving, paused, trials, circuit }: EngineState): boolean {
  return (
    !isOpaque(spec) &&
    healthy &&
    !asleep &&
    !isLeaving &&
    paused === null &&
    trials.running === null &&
    circuit.state === 'closed' &&
    !trials.isUnserved
  )
}

const isReferenceFor = ({ spec: { id, role, profile } }: EngineState, one: EngineState): boolean =>
  one.spec.id !== id &&
  one.spec.role === role &&
  one.spec.profile === profile &&
  one.condition.condition === 'well' &&
  mayBeTried(one)

const idlest = (engines: readonly EngineState[]): EngineState | null =>
  engines.reduce<EngineState | null>((best, one) => (best === null || one.bookings < best.bookings ? one : best), null)
