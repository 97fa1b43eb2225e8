import type { Admission } from '../../contract/admission.ts'
import { isOpaque, type PoolConfig } from '../../contract/pool-config.ts'
import { isPoolFull, type Refusal } from '../../contract/refusal.ts'
import type { OverloadControl } from '../../overload/overload-control.ts'
import type { Random } from '../../routing/policy.ts'
import type { RankingPool } from '../../routing/ranking.ts'
import { sampleRefused } from '../arrived-work.ts'
import { decide, movedTo } from './decide.ts'
import type { DecisionSteps } from './decision-steps.ts'
import type { DecisionResult } from './decision-result.ts'
import type { PolicyChains } from './policy-chains.ts'
import { servingEngine } from '../../contract/placement.ts'
import type { PoolEngines } from '../pool-engines/pool-engines.ts'
import type { PoolLedger } from '../ledger.ts'
import { retryBudgetSpent } from '../refusals.ts'
import { isRetry, withoutFailedLegs } from '../retried-work.ts'
import type { RetryBudget } from '../retry-budget.ts'
import { enginePrediction } from '../signals/engine-prediction.ts'
import { EnginePressure } from '../signals/engine-pressure.ts'
import type { SignalReader } from '../signals/signal-reader.ts'
import { type RequestDemand, expectedWork } from '../queue/request-demand.ts'

interface PlacerParts {
  readonly random: Random
  readonly engines: PoolEngines
  readonly ledger: PoolLedger
  readonly overload: OverloadControl
  readonly budget: RetryBudget
  readonly spare: RankingPool
}

/** Configuration of the pool. */
export interface ConfiguredPool {
  readonly pool: PoolConfig
  readonly chains: PolicyChains
  readonly steps: DecisionSteps
}

export interface PlacingInput {
  readonly admission: Admission
  readonly reading: SignalReader
  readonly now: number
  /** Time that the request has waited for room, ms. Absent: it is asked for the first time. */
  readonly waitedMs?: number | undefined
}

/** Chooses engines within the limits of the pool: retry budget, admission control, providers as the last resort. */
export class Placer {
  readonly #parts: PlacerParts
  /** Decision counter. */
  #rotation = 0

  constructor(parts: PlacerParts) {
    this.#parts = parts
  }

  /** A decision was booked. */
  booked(): void {
    this.#rotation += 1
  }

  /** Decides what is booked, or why nothing is. */
  place(input: PlacingInput, configured: ConfiguredPool): DecisionResult {
    return this.#orReserve(
      this.#withinLimits(this.#withinBudget(input, configured), input, configured),
      input,
      configured,
    )
  }

  /** Decides by the policy alone. */
  choose({ admission, reading, now }: PlacingInput, configured: ConfiguredPool): DecisionResult {
    const {
      engines: { table: engines },
      random,
      spare,
    } = this.#parts
    const { pool, chains, steps } = configured
    return decide(admission, { pool, chains, steps, reading, engines, random, rotation: this.#rotation, spare, now })
  }

  /** Returns why no engine could serve the request if there was room. null: one could. */
  lacking(input: PlacingInput, configured: ConfiguredPool): Refusal | null {
    const chosen = this.choose(input, configured)
    if ('refusal' in chosen) return isPoolFull(chosen.refusal) ? null : chosen.refusal
    this.#parts.spare.give(chosen.ranked)
    return null
  }

  /** Returns the demand of the request on the engine that suits it best. */
  demandOf(admission: Admission, reading: SignalReader): RequestDemand {
    const { objective } = this.#parts.overload
    const engines = this.#parts.engines.table.all()
    const cached = engines.map((engine) => reading.prompt.cached(engine).total)
    const waitsMs = engines.map((engine) =>
      isOpaque(engine.spec) ? Infinity : objective.longestWaitMs(admission, new EnginePressure(reading, engine)),
    )
    return { work: expectedWork(admission, Math.max(0, ...cached)), longestWaitMs: Math.max(...waitsMs) }
  }

  /** If the retry budget is spent, legs that failed are skipped where the pool allows it. */
  #withinBudget(input: PlacingInput, configured: ConfiguredPool): DecisionResult {
    const { admission, now } = input
    const { retry, split } = configured.pool
    // A wedged engine is the grant: the budget of retries would end with the first requests that wait there.
    const isGranted =
      !isRetry(admission) ||
      admission.second?.kind === 'rescue' ||
      this.#parts.budget.allows(now, retry, admission.second !== undefined)
    const granted = isGranted ? admission : withoutFailedLegs(admission, split)
    if (granted === null) return { refusal: retryBudgetSpent }
    return this.choose(granted === admission ? input : { ...input, admission: granted }, configured)
  }

  /** Refuses or moves a request that its engine has no room for. */
  #withinLimits(chosen: DecisionResult, input: PlacingInput, { pool }: ConfiguredPool): DecisionResult {
    if ('refusal' in chosen) return chosen
    const { admission, reading, now, waitedMs } = input
    const { maxWaiting = Infinity } = pool
    const {
      engines: { table: engines },
      overload,
      ledger,
      spare,
    } = this.#parts
    const pressure = (id: string) => {
      const engine = engines.get(id)
      return engine === undefined || isOpaque(engine.spec) ? null : new EnginePressure(reading, engine)
    }
    const { decision } = chosen
    const own = servingEngine(decision.placement)
    const verdict = overload.judge({
      admission,
      decision,
      maxWaiting,
      pressure,
      now,
      waitedMs,
      alternatives: () => chosen.ranked[0]?.engines().filter((id) => id !== own) ?? [],
      engines: engines.all().length,
      limited: (id) => ledger.stepLimited(engines.get(id)!, now),
    })
    if (verdict.kind === 'refuse') {
      spare.give(chosen.ranked)
      const { arrivals } = overload
      if (arrivals !== null && waitedMs === undefined) sampleRefused(arrivals, decision.placement, reading, engines)
      return verdict
    }
    return verdict.kind === 'admit'
      ? chosen
      : {
          ...chosen,
          decision: movedTo(verdict.engine, decision, enginePrediction(reading, engines.get(verdict.engine)!)),
        }
  }

  /** Asks a provider if the pool's own engines are too slow for the request. */
  #orReserve(chosen: DecisionResult, input: PlacingInput, configured: ConfiguredPool): DecisionResult {
    const { admission } = input
    const { engines } = configured.pool
    const isTooSlow = 'refusal' in chosen && chosen.refusal.reason === 'overloaded'
    if (!isTooSlow || !engines.some(({ isExternal }) => isExternal === true)) return chosen
    if (admission.isLastResort !== true) return { refusal: { ...chosen.refusal, mayPanic: true } }
    const own = engines.flatMap(({ id, isExternal }) => (isExternal === true ? [] : [id]))
    const avoid = [...admission.avoid, ...own]
    const reserve = this.choose({ ...input, admission: { ...admission, avoid } }, configured)
    return 'refusal' in reserve ? chosen : reserve
  }
}
