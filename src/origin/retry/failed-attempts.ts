import type { EarlyLegRole } from '../../core/contract/legs.ts'
import type { AcquiredPlacement } from '../placement/acquired-placement.ts'
import type { FailedOutcome, FailedAttempt } from '../attempt-context.ts'
import { isGatewayFailure, unreached } from './client-failure.ts'
import { type FailedLeg, legOf } from './failed-leg.ts'
import { keepsAnswer } from './kept-answer.ts'
import { largestContext } from './largest-context.ts'
import type { AttemptHistory } from '../placement/place-step.ts'
import { serverOf } from '../rank-targets.ts'

/** A failed outcome with its placement and, of a split request, the leg that failed. */
interface PlacedFailure extends FailedOutcome {
  readonly placed: AcquiredPlacement
  readonly leg: FailedLeg | null
}

/** A decode engine that failed on KV data of a prefill engine: either of the two may be at fault. */
interface SplitBlame {
  readonly cluster: string
  readonly decode: string
  readonly prefill: string
}

const NO_ENGINES: ReadonlySet<string> = new Set()

/** Failed attempts of one request, and what follows from them for the next one. */
export class FailedAttempts {
  /** In the order in which they failed. */
  readonly all: PlacedFailure[] = []
  /** Number of those that failed after their early legs. */
  finalLegs = 0
  #avoid: ReadonlyMap<string, readonly string[]>
  /** Engines that take requests again when they return. */
  #away: ReadonlySet<string> = NO_ENGINES
  /** Regions of which gateways were full. undefined: none. */
  #full: Set<string | null> | undefined
  #blame: SplitBlame | null = null
  #hasShiftedBlame = false

  /** @param avoid cluster id → engines that cannot serve the request */
  constructor(avoid: ReadonlyMap<string, readonly string[]>) {
    this.#avoid = avoid
  }

  /** Another engine would need as long, and the client has waited for the whole limit. */
  get isTooLate(): boolean {
    return this.all.some(({ failure }) => failure === 'answer_timeout')
  }

  /** History for the next attempt. */
  history(): AttemptHistory {
    const { all } = this
    return {
      attempt: all.length,
      skipsRetryBudget: all.length > 0 && all.every((one) => causedNoWork(one) || isGatewayFailure(one)),
      failedLegs: failedLegsOf(all),
      avoid: this.#avoid,
      away: this.#away,
      full: this.#full,
      beyondContextTokens: largestContext(all),
    }
  }

  /** Adds a failed attempt, whose engine is avoided from now on. */
  add({ outcome, placed }: FailedAttempt): void {
    const { engine, failure, isServerFull = false } = outcome
    const leg = legOf(placed.placement, engine.id)
    this.all.push({ ...outcome, placed, leg })
    if (leg === null || leg === 'decode') this.finalLegs += 1
    if (failure === 'answer_timeout') return
    const isServerWide = isServerFull || unreached.has(failure)
    const avoided = (isServerWide ? serverOf(engine) : engine).id
    this.#avoidIn(placed.route.cluster.id, avoided)
    if (engine.kind === 'gateway' && failure === 'busy' && outcome.status === 429)
      (this.#full ??= new Set()).add(placed.route.cluster.region)
    if (outcome.isAway === true || failure === 'paused') this.#away = new Set([...this.#away, avoided])
    if (!this.#hasShiftedBlame) this.#blame = splitBlame(placed, outcome) ?? this.#blame
  }

  /**
   * No other decode engine is left: avoids the prefill engine of the last blame instead, so that its decode engine is
   * tried again, with another one or alone. Has effect once. false: nothing changes.
   */
  shiftBlame(): boolean {
    if (this.#blame === null) return false
    const { cluster, decode, prefill } = this.#blame
    const others = this.#avoid.get(cluster)!.filter((id) => id !== decode)
    this.#avoid = new Map(this.#avoid).set(cluster, [...others, prefill])
    this.#blame = null
    this.#hasShiftedBlame = true
    return true
  }

  #avoidIn(cluster: string, engine: string): void {
    this.#avoid = new Map(this.#avoid).set(cluster, [...(this.#avoid.get(cluster) ?? []), engine])
  }
}

/** Legs that failed before the final one; null: a final leg failed. */
function failedLegsOf(failed: readonly PlacedFailure[]): readonly EarlyLegRole[] | null {
  if (failed.length === 0) return []
  const legs = new Set(failed.map(({ leg }) => leg))
  return legs.has(null) || legs.has('decode') ? null : ([...legs] as EarlyLegRole[])
}

/** The engine was full, paused or out of reach, or lacks what the request needs: another attempt repeats no work. */
const causedNoWork = ({ engine, failure }: PlacedFailure): boolean =>
  failure === 'busy' ||
  failure === 'paused' ||
  failure === 'lacks_adapter' ||
  keepsAnswer({ failure }) ||
  (engine.kind === 'gateway' && (failure === 'loop' || unreached.has(failure)))

/** null: the failure is that of the engine alone. */
function splitBlame({ route, placement }: AcquiredPlacement, { engine, failure }: FailedOutcome): SplitBlame | null {
  const prefill = placement.kind === 'whole' ? null : placement.prefill
  if (prefill === null || engine.id === prefill || failure !== 'status_5xx') return null
  return { cluster: route.cluster.id, decode: engine.id, prefill }
}
