/** Makes one routing decision from the engines' state. Books nothing. */
import type { Mutable } from '../../mutable.ts'
import type { Admission } from '../../contract/admission.ts'
import type { Decision, ExcludedEngine } from '../../contract/decision.ts'
import type { LegRole } from '../../contract/legs.ts'
import { type Placement, servingEngine } from '../../contract/placement.ts'
import { isOpaque, type PoolConfig } from '../../contract/pool-config.ts'
import type { CandidateSet } from '../../routing/candidate-set.ts'
import type { Random, RouteRequest } from '../../routing/policy.ts'
import type { RankingPool } from '../../routing/ranking.ts'
import { rankCandidates, type RouteResult } from '../../routing/route.ts'
import type { DecisionSteps } from './decision-steps.ts'
import type { DecisionResult } from './decision-result.ts'
import type { EngineState } from '../pool-engines/engine-state.ts'
import type { EngineTable } from '../pool-engines/engine-table.ts'
import { excludedFrom } from './excluded-engines.ts'
import type { Exclusion } from './exclusion.ts'
import {
  type EnginePrediction,
  enginePrediction,
  type SplitPrediction,
  splitPrediction,
} from '../signals/engine-prediction.ts'
import { panicOf } from './panic.ts'
import type { PolicyChains } from './policy-chains.ts'
import { refuse } from '../refusals.ts'
import { rolesOf } from './roles.ts'
import type { SignalReader } from '../signals/signal-reader.ts'
import { tieOrder } from './tie-order.ts'

interface DecisionInput {
  readonly pool: PoolConfig
  readonly engines: EngineTable
  readonly chains: PolicyChains
  readonly steps: DecisionSteps
  readonly reading: SignalReader
  readonly random: Random
  /** Decision counter: the start of the rotation among equal engines. */
  readonly rotation: number
  /** Pool of ranking buffers. The caller returns the rankings of the decision to it. */
  readonly spare: RankingPool
  readonly now: number
}

const AS_NUMBERS: Decision['candidates'] = []

/** Signals that every decision reads. */
const NEEDED = ['requests', 'recentWork'] as const

export function decide(admission: Admission, input: DecisionInput): DecisionResult {
  const { engines, reading, now, pool, steps } = input
  reading.write(NEEDED)
  const facts = { engines: engines.all(), admission, pool, now }
  const usual = excludedFrom(facts, steps.reserve)
  const reserved = usual.some(({ reason }) => reason === 'reserve')
  // A provider is used before an engine whose circuit is open.
  const panic = steps.reserve.isUsed(usual, facts.engines) ? null : panicOf(usual, facts)
  let routing = routeAmong(panic === null || admission.isLastResort !== true ? usual : panic.excluded, admission, input)
  if ('empty' in routing.routed && panic !== null && admission.isLastResort === true)
    routing = routeAmong(panic.excludedAtLast, admission, input)
  const { routed, excluded, inOrder, candidateSetOf, request, unusable } = routing
  if ('empty' in routed) {
    const mayPanic = (panic !== null || reserved) && admission.isLastResort !== true
    return {
      refusal: refuse(facts.engines, admission, excluded, {
        now,
        statsIntervalMs: pool.statsIntervalMs,
        mayPanic,
        missing: routed.empty === 'role' ? routed.role : null,
        roles: pool.split.roles,
      }),
    }
  }
  const { placement } = routed
  const shadow =
    input.chains.shadow === null
      ? null
      : shadowOf(request, input, {
          candidates: candidateSetOf(placement.kind === 'whole' ? 'whole' : 'decode'),
          placement,
        })
  const { ranking } = routed
  return {
    ranked: ranking.ranked,
    decision: decisionOf(admission, input, {
      routed,
      excluded: excludedOf(excluded, steps.legs.unranked(ranking, inOrder)),
      unusable,
      shadow,
      isPanic: excluded !== usual && excluded.length < usual.length,
    }),
  }
}

const NONE_EXCLUDED: readonly ExcludedEngine[] = []

/** Engines that the decision has left out, each with its reason. */
function excludedOf(excluded: readonly Exclusion[], unranked: readonly ExcludedEngine[]): readonly ExcludedEngine[] {
  // Nearly always. The log keeps a thousand decisions.
  if (excluded.length + unranked.length === 0) return NONE_EXCLUDED
  return [...excluded.map(({ engine, reason }) => ({ engine: engine.spec.id, reason })), ...unranked]
}

interface Routing {
  readonly routed: RouteResult
  readonly excluded: readonly Exclusion[]
  readonly inOrder: readonly EngineState[]
  readonly request: RouteRequest
  readonly unusable: Decision['fallback']
  candidateSetOf(legRole: LegRole): CandidateSet
}

function withoutExcluded(engines: readonly EngineState[], excluded: readonly Exclusion[]): readonly EngineState[] {
  if (excluded.length === 0) return engines
  const away = new Set(excluded.map(({ engine }) => engine))
  return engines.filter((engine) => !away.has(engine))
}

function routeAmong(excluded: readonly Exclusion[], admission: Admission, input: DecisionInput): Routing {
  const { engines, reading, pool, steps } = input
  const inOrder = tieOrder(withoutExcluded(engines.all(), excluded), input.rotation)
  const candidateSetOf = (legRole: LegRole) => steps.legs.candidateSet(inOrder, legRole, reading)
  const request = requestOf(admission, reading, pool.blockTokens)
  const isReserve = steps.reserve.isIn(inOrder)
  const { chain, unusable } = input.chains.for(admission)
  const routed = steps.legs.route({
    request,
    chain,
    random: input.random,
    split: pool.split,
    unsplittable: isReserve ? 'a provider serves it' : admission.unsplittable,
    splitTokens: admission.splitTokens ?? admission.promptTokens,
    encodeItems: rolesOf(pool).encodes && !isReserve ? admission.encodeItems : 0,
    canSplit: rolesOf(pool).splits,
    rankings: input.spare,
    candidateSet: candidateSetOf,
    prediction: (engine) => predictionById(engine, input, splitPrediction),
  })
  return { routed, excluded, inOrder, candidateSetOf, request, unusable }
}

/** Returns what the shadow policy would choose from the same engines. */
function shadowOf(
  request: RouteRequest,
  input: DecisionInput,
  { candidates, placement }: { readonly candidates: CandidateSet; readonly placement: Placement },
): Decision['shadow'] {
  const {
    chains: { shadow },
    random,
    spare,
  } = input
  if (shadow === null) return null
  const { ranked } = rankCandidates({ request, chain: [shadow], random, rankings: spare }, candidates)
  const engine = ranked[0]?.engine(0)
  spare.give(ranked)
  if (engine === undefined) return null
  const { ttftMs } = predictionById(engine, input)
  const chosen = placement.kind === 'whole' ? placement.engine : placement.decode
  const chosenMs = placement.kind === 'whole' ? predictionById(chosen, input).ttftMs : null
  return {
    policy: shadow.name,
    engine,
    predictedTtftMs: ttftMs,
    agrees: engine === chosen,
    predictedGainMs: chosenMs === null || ttftMs === null ? null : chosenMs - ttftMs,
  }
}

interface DecisionParts {
  readonly routed: Exclude<RouteResult, { readonly empty: unknown }>
  readonly excluded: readonly ExcludedEngine[]
  readonly unusable: Decision['fallback']
  readonly shadow: Decision['shadow']
  readonly isPanic: boolean
}

function decisionOf(
  admission: Admission,
  input: DecisionInput,
  { routed, excluded, unusable, shadow, isPanic }: DecisionParts,
): Decision {
  const predicted = predictionById(routed.prefiller, input)
  const { placement } = routed
  const decoding = placement.kind === 'whole' ? predicted : predictionById(placement.decode, input, splitPrediction)
  const isSplit = placement.kind !== 'whole' && placement.prefill !== null
  const kvTransferMs = isSplit ? (decoding.kvTransferMs ?? 0) : 0
  // Rare fields are added afterwards: spreads of empty objects took half the time of this function.
  const decision: Mutable<Decision> = {
    id: admission.id,
    at: input.now,
    cluster: input.pool.cluster,
    pool: input.pool.pool,
    model: admission.model,
    attempt: admission.attempt,
    session: admission.session ?? undefined,
    promptTokens: admission.promptTokens,
    tokenSource: admission.tokenSource,
    policy: routed.ranking.policy,
    fallback: unusable ?? routed.ranking.fallback,
    placement,
    candidates: AS_NUMBERS,
    excluded,
    predictedTtftMs: predicted.ttftMs === null ? null : predicted.ttftMs + kvTransferMs,
    predictedPlaceWaitMs: predicted.placeWaitMs,
    predictedItlMs: decoding.itlMs,
    predictedCachedTokens: predicted.cachedTokens,
    shadow,
    actual: null,
  }
  if (admission.second !== undefined) decision.hedge = true
  if (isPanic) decision.panic = true
  return Object.assign(decision, input.steps.legs.splitOf(routed))
}

const UNKNOWN: EnginePrediction = { ttftMs: null, placeWaitMs: null, itlMs: null, cachedTokens: null }

function predictionById(
  engineId: string,
  { engines, reading }: DecisionInput,
  predict: (reading: SignalReader, engine: EngineState) => SplitPrediction = enginePrediction,
): SplitPrediction {
  const engine = engines.get(engineId)
  // A gateway or provider has many engines behind it, so there is no prediction.
  return engine === undefined || isOpaque(engine.spec) ? UNKNOWN : predict(reading, engine)
}

function requestOf(admission: Admission, { usualOutputTokens }: SignalReader, blockTokens: number): RouteRequest {
  const { id, model, adapter, promptTokens, expectedOutputTokens, blocks, session, tenant } = admission
  return {
    id,
    model,
    adapter,
    promptTokens,
    blockTokens,
    blockCount: blocks.length >> 1,
    session,
    tenant,
    expectedOutputTokens,
    usualOutputTokens,
  }
}

/** The decision with another engine than the policy's choice. */
export function movedTo(
  engine: string,
  decision: Decision,
  { ttftMs, placeWaitMs, itlMs, cachedTokens }: EnginePrediction,
): Decision {
  const movedFrom = servingEngine(decision.placement)
  const runnersUp = [movedFrom, ...decision.placement.runnersUp.filter((id) => id !== engine)]
  return {
    ...decision,
    placement: { kind: 'whole', engine, runnersUp },
    movedFrom,
    predictedTtftMs: ttftMs,
    predictedPlaceWaitMs: placeWaitMs,
    predictedItlMs: itlMs,
    predictedCachedTokens: cachedTokens,
  }
}
