/** Makes one routing decision from the engines' state. Books nothing. */
import type { Random, RouteRequest, Policy } from '../routing/policy.ts'
import { hashText } from '../routing/rendezvous.ts'
import type { Ranking, RankingPool } from '../routing/ranking.ts'
import { type CandidateSet, type RankResult, rankField, route, type Routed, type RouteInput } from '../routing/route.ts'
import type { LegRole } from '../contract/legs.ts'
import {
  type Admission,
  type Decision,
  type ExcludedEngine,
  isOpaque,
  type Placement,
  type PoolConfig,
  type Refusal,
  type PolicyConfig,
} from '../contract/contract.ts'
import { fieldOf, receivingFieldOf, tieOrder, supportsRole, excludedFrom, panicOf, usesReserve } from './eligible.ts'
import type { EngineState, EngineTable } from './engine-state.ts'
import type { Forecast } from './ledger-entry.ts'
import type { SignalReader } from './signal-reader.ts'
import { type Excluded, refuse } from './refusals.ts'
import { makePolicy, policyKind } from '../routing/policies/index.ts'
import { session as sessionPolicy, qps } from '../routing/policies/simple.ts'

/** Configured policy and its fallbacks for missing signals: `session` if there is one, then `qps`. */
export interface PolicyChain {
  readonly chain: readonly Policy[]
  /** Requested policy that could not be created. */
  readonly unusable: { readonly from: string; readonly reason: string } | null
}

/** Policies of a configuration. Overrides of a request create their own. */
export class PolicyChains {
  readonly #pool: PoolConfig
  /** Chains for requests with and without a session. */
  readonly #configured: { readonly session: PolicyChain; readonly none: PolicyChain }
  /** Shadow policy; null: none, or unknown to this version. */
  readonly shadow: Policy | null

  constructor(pool: PoolConfig) {
    this.#pool = pool
    this.#configured = { session: chainOf(pool.policy, [sessionPolicy, qps]), none: chainOf(pool.policy, [qps]) }
    const shadow = pool.shadow === null ? null : makePolicy(pool.shadow)
    this.shadow = shadow !== null && 'policy' in shadow ? shadow.policy : null
  }

  for(admission: Admission): PolicyChain {
    const hasSession = admission.session !== null
    const wanted = overridden(this.#pool.policy, admission)
    if (wanted !== null) return chainOf(wanted, hasSession ? [sessionPolicy, qps] : [qps])
    return hasSession ? this.#configured.session : this.#configured.none
  }
}

function chainOf(config: PolicyConfig, fallbacks: readonly Policy[]): PolicyChain {
  const made = makePolicy(config)
  if ('policy' in made)
    return { chain: [made.policy, ...fallbacks.filter((policy) => policy !== made.policy)], unusable: null }
  return { chain: fallbacks, unusable: { from: config.name, reason: made.problem } }
}

/** Returns the policy of a request's overrides; null: the pool's. Unknown options are ignored. */
function overridden(configured: PolicyConfig, { overrides }: Admission): PolicyConfig | null {
  if (overrides === null) return null
  const name = overrides.policy ?? configured.name
  const known = policyKind(name)?.options ?? {}
  const options: Record<string, number | string | boolean> = name === configured.name ? { ...configured.options } : {}
  if (overrides.overlapWeight !== undefined && 'overlapWeight' in known)
    options['overlapWeight'] = overrides.overlapWeight
  if (overrides.temperature !== undefined && 'temperature' in known) options['temperature'] = overrides.temperature
  return { name, options }
}

/** Leading blocks that identify a prompt for affinity without an index. */
export const PREFIX_KEY_BLOCKS = 4

export interface DecisionInput {
  readonly pool: PoolConfig
  readonly engines: EngineTable
  readonly chains: PolicyChains
  readonly reading: SignalReader
  readonly random: Random
  /** Decision counter: the start of the rotation among equal engines. */
  readonly rotation: number
  /** Pool of ranking buffers. The caller returns the rankings of the decision to it. */
  readonly spare: RankingPool
  readonly now: number
}

/** Decision whose candidates are in `ranked`, as numbers. */
export interface Choice {
  readonly decision: Decision
  readonly ranked: readonly Ranking[]
}

export type DecisionResult = Choice | { readonly refusal: Refusal }

const AS_NUMBERS: Decision['candidates'] = []
/** Signals that every decision reads. */
const NEEDED = ['requests', 'recentWork'] as const

export function decide(admission: Admission, choosing: DecisionInput): DecisionResult {
  const { engines, reading, now, pool } = choosing
  for (const signal of NEEDED) reading.fill(signal)
  const facts = { engines: engines.all(), admission, pool, now }
  const usual = excludedFrom(facts)
  const reserved = usual.some(({ reason }) => reason === 'reserve')
  // A provider is used before an engine whose circuit is open.
  const panic = usesReserve(usual, facts) ? null : panicOf(usual, facts)
  let routing = routeAmong(
    panic === null || admission.isLastResort !== true ? usual : panic.excluded,
    admission,
    choosing,
  )
  if ('empty' in routing.routed && panic !== null && admission.isLastResort === true)
    routing = routeAmong(panic.excludedAtLast, admission, choosing)
  const { routed, excluded, inOrder, field, request, unusable } = routing
  if ('empty' in routed) {
    const mayPanic = (panic !== null || reserved) && admission.isLastResort !== true
    return {
      refusal: refuse(facts.engines, admission, excluded, {
        now,
        statsIntervalMs: pool.statsIntervalMs,
        mayPanic,
        missing: routed.empty === 'role' ? routed.role : null,
      }),
    }
  }
  const { placement } = routed
  const shadow =
    choosing.chains.shadow === null
      ? null
      : shadowOf(request, choosing, { field: field(placement.kind === 'whole' ? 'whole' : 'decode'), placement })
  const { ranking } = routed
  return {
    ranked: ranking.ranked,
    decision: decisionOf(admission, choosing, {
      routed,
      excluded: excludedIn(ranking, inOrder, excluded),
      unusable,
      shadow,
      isPanic: excluded !== usual && excluded.length < usual.length,
    }),
  }
}

interface Routing {
  readonly routed: Routed
  readonly excluded: readonly Excluded[]
  readonly inOrder: readonly EngineState[]
  readonly request: RouteRequest
  readonly unusable: Decision['fallback']
  field(part: LegRole): CandidateSet
}

function routeAmong(excluded: readonly Excluded[], admission: Admission, choosing: DecisionInput): Routing {
  const { engines, reading, pool } = choosing
  const away = new Set(excluded.map(({ engine }) => engine))
  const inOrder = tieOrder(
    away.size === 0 ? engines.all() : engines.all().filter((engine) => !away.has(engine)),
    choosing.rotation,
  )
  const field = (part: LegRole) => {
    const able = rolesOf(pool).differ ? inOrder.filter(({ spec }) => supportsRole(spec.role, part)) : inOrder
    return part === 'decode' ? receivingFieldOf(able, reading) : fieldOf(able, reading)
  }
  const request = requestOf(admission, reading, pool.blockTokens)
  const isReserve = inOrder.some(({ spec }) => spec.isExternal === true)
  const { chain, unusable } = choosing.chains.for(admission)
  const routed = route({
    request,
    chain,
    random: choosing.random,
    split: pool.split,
    unsplittable: isReserve ? 'a provider serves it' : admission.unsplittable,
    splitTokens: admission.splitTokens ?? admission.promptTokens,
    encodeItems: rolesOf(pool).encodes && !isReserve ? admission.encodeItems : 0,
    splits: rolesOf(pool).splits,
    spare: choosing.spare,
    field,
    forecast: (engine) => forecastOf(engine, choosing),
  })
  return { routed, excluded, inOrder, field, request, unusable }
}

/** Returns what the shadow policy would choose from the same engines. */
function shadowOf(
  request: RouteRequest,
  choosing: DecisionInput,
  { field, placement }: { readonly field: CandidateSet; readonly placement: Placement },
): Decision['shadow'] {
  const {
    chains: { shadow },
    random,
    spare,
  } = choosing
  if (shadow === null) return null
  const { ranked } = rankField({ request, chain: [shadow], random, spare }, field)
  const engine = ranked[0]?.engine(0)
  spare.give(ranked)
  if (engine === undefined) return null
  const { ttftMs } = forecastOf(engine, choosing)
  const chosen = placement.kind === 'whole' ? placement.engine : placement.decode
  const chosenMs = placement.kind === 'whole' ? forecastOf(chosen, choosing).ttftMs : null
  return {
    policy: shadow.name,
    engine,
    predictedTtftMs: ttftMs,
    agrees: engine === chosen,
    predictedGainMs: chosenMs === null || ttftMs === null ? null : chosenMs - ttftMs,
  }
}

interface Found {
  readonly routed: Exclude<Routed, { readonly empty: unknown }>
  readonly excluded: readonly ExcludedEngine[]
  readonly unusable: Decision['fallback']
  readonly shadow: Decision['shadow']
  readonly isPanic: boolean
}

function decisionOf(
  admission: Admission,
  choosing: DecisionInput,
  { routed, excluded, unusable, shadow, isPanic }: Found,
): Decision {
  const forecast = forecastOf(routed.prefiller, choosing)
  const { placement } = routed
  const handOverMs =
    placement.kind === 'whole' || placement.prefill === null
      ? 0
      : (forecastOf(placement.decode, choosing).handOverMs ?? 0)
  return {
    id: admission.id,
    at: choosing.now,
    cluster: choosing.pool.cluster,
    pool: choosing.pool.pool,
    model: admission.model,
    attempt: admission.attempt,
    ...(admission.hedge === true ? { hedge: true } : {}),
    promptTokens: admission.promptTokens,
    tokenSource: admission.tokenSource,
    policy: routed.ranking.policy,
    fallback: unusable ?? routed.ranking.fallback,
    placement,
    ...(routed.why === null
      ? {}
      : { split: { taken: placement.kind !== 'whole' && placement.prefill !== null, why: routed.why } }),
    candidates: AS_NUMBERS,
    excluded,
    ...(isPanic ? { panic: true } : {}),
    predictedTtftMs: forecast.ttftMs === null ? null : forecast.ttftMs + handOverMs,
    predictedCachedTokens: forecast.cachedTokens,
    shadow,
    actual: null,
  }
}

/** Engines that were not ranked, each with the reason. */
function excludedIn(
  ranking: RankResult,
  eligible: readonly EngineState[],
  excluded: readonly Excluded[],
): ExcludedEngine[] {
  const out = excluded.map(({ engine, reason }) => ({ engine: engine.spec.id, reason }))
  if (ranking.ranked.length === 1 && ranking.ranked[0]!.count === eligible.length) return out
  const ranked = new Set(ranking.ranked.flatMap((one) => one.engines()))
  const unranked = new Set(ranking.unranked)
  return [
    ...out,
    ...eligible
      .filter(({ spec }) => !ranked.has(spec.id))
      .map(({ spec }) => ({
        engine: spec.id,
        reason: unranked.has(spec.id) ? ('signal_missing' as const) : ('role' as const),
      })),
  ]
}

function forecastOf(engineId: string, { engines, reading }: DecisionInput): ReturnType<RouteInput['forecast']> {
  const engine = engines.get(engineId)
  // A gateway or provider has many engines behind it, so there is no forecast.
  return engine === undefined || isOpaque(engine.spec) ? { ttftMs: null, cachedTokens: null } : reading.forecast(engine)
}

function requestOf(admission: Admission, { usualOutputTokens }: SignalReader, blockTokens: number): RouteRequest {
  const { id, model, adapter, promptTokens, session, expectedOutputTokens, blocks } = admission
  return {
    id,
    model,
    adapter,
    promptTokens,
    blockTokens,
    blockCount: blocks.length >> 1,
    prefixKey: prefixKey(admission),
    session,
    expectedOutputTokens,
    usualOutputTokens,
  }
}

/** Key of the leading blocks. Hashes are chained, so one lane of the last block identifies all. */
export function prefixKey({ id, blocks }: Pick<Admission, 'id' | 'blocks'>): number {
  const count = Math.min(blocks.length >> 1, PREFIX_KEY_BLOCKS)
  return count === 0 ? hashText(id) : blocks[2 * (count - 1)]!
}

interface Roles {
  readonly encodes: boolean
  readonly splits: boolean
  /** Whether any engine has a role other than `any`. */
  readonly differ: boolean
}

const roles = new WeakMap<PoolConfig, Roles>()

/** Roles of a pool, computed once per configuration. */
function rolesOf(pool: PoolConfig): Roles {
  const known = roles.get(pool)
  if (known !== undefined) return known
  const found = {
    encodes: pool.engines.some(({ role }) => role === 'encode'),
    splits: splits(pool),
    differ: pool.engines.some(({ role }) => role !== 'any'),
  }
  roles.set(pool, found)
  return found
}

/** Whether the pool has dedicated prefill or decode engines, and different engines for both. */
function splits({ engines }: PoolConfig): boolean {
  const prefillers = engines.filter(({ role }) => supportsRole(role, 'prefill'))
  const decoders = engines.filter(({ role }) => supportsRole(role, 'decode'))
  const dedicated = engines.some(({ role }) => role === 'prefill' || role === 'decode')
  return dedicated && prefillers.some((one) => decoders.some((other) => one !== other))
}

/** The decision with another engine than the policy's choice. */
export function movedTo(engine: string, decision: Decision, { ttftMs, cachedTokens }: Forecast): Decision {
  const movedFrom = servingEngine(decision.placement)
  const runnersUp = [movedFrom, ...decision.placement.runnersUp.filter((id) => id !== engine)]
  return {
    ...decision,
    placement: { kind: 'whole', engine, runnersUp },
    movedFrom,
    predictedTtftMs: ttftMs,
    predictedCachedTokens: cachedTokens,
  }
}

/** Returns the engine that sends the response. */
export const servingEngine = (placement: Placement): string =>
  placement.kind === 'whole' ? placement.engine : placement.decode
