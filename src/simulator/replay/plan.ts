import type { EngineSpec, PoolConfig } from '../../core/contract/contract.ts'
import { profile as priorNamed } from '../../core/latency/profiles.ts'
import { type Profile, profiles } from '../profiles.ts'
import { chance } from './chance.ts'
import { exact } from './routers.ts'
import { type LmcacheOptions, LmcacheStore } from './lmcache-store.ts'
import { run, type RunOptions, type RunResult } from './run.ts'
import type { RouterKind } from './router.ts'
import { SerialEngine, type SerialOptions, type JobListener, type ReplayEngine } from './serial-engine.ts'
import { type Trace, meanRate } from './trace.ts'
import { type Outside, VllmEngine } from './vllm-engine.ts'

/** So slow that requests rarely overlap. */
const TRICKLE = 1 / 64
/** The fleet is at its limit when mean TTFT is this many times that of an idle fleet. */
const LIMIT_FACTOR = 4
const HALVINGS = 5
const FASTEST = 1e4

/**
 * Finds how many times faster than recorded the fleet can serve the trace: the speed at which mean TTFT is four times
 * that of an idle fleet, within 4 %. Maximum throughput is less meaningful, because saturation also destroys the
 * caches.
 */
export function sustainedSpeed(trace: Trace, options: RunOptions): number {
  const ttftMs = (speed: number) => meanTtftMs(trace, { ...options, speed, clockMs: null })
  const limitMs = LIMIT_FACTOR * ttftMs(TRICKLE)
  let high = 1
  if (ttftMs(high) <= limitMs) while (high < FASTEST && ttftMs(high * 2) <= limitMs) high *= 2
  else while (high > TRICKLE && ttftMs(high / 2) > limitMs) high /= 2
  // The limit is between one of these speeds and its double.
  let low = ttftMs(high) <= limitMs ? high : high / 2
  high = low * 2
  for (let halving = 0; halving < HALVINGS; halving += 1) {
    const middle = Math.sqrt(low * high)
    if (ttftMs(middle) <= limitMs) low = middle
    else high = middle
  }
  return low
}

function meanTtftMs(trace: Trace, options: RunOptions): number {
  const { jobs } = run(trace, options)
  return jobs.reduce((sum, { firstTokenAt, sentAt }) => sum + (firstTokenAt - sentAt), 0) / Math.max(1, jobs.length)
}

/** Requests per second at this speed. */
export function rateAt(speed: number, trace: Trace): number {
  return speed * meanRate(trace)
}

/** One engine of the simulated fleet. */
export interface PlannedEngine {
  readonly model:
    | { readonly kind: 'vllm'; readonly profile: Profile }
    | { readonly kind: 'serial'; readonly options: SerialOptions }
  /** What the gateway's configuration has of it. Unset fields have the defaults of an engine that reports nothing. */
  readonly spec: Partial<EngineSpec>
}

export interface FleetPlan {
  readonly engines: readonly PlannedEngine[]
  readonly rttMs: number
  readonly split?: PoolConfig['split']
  /** At every engine; absent: no LMCache. */
  readonly lmcache?: LmcacheOptions
}

export interface Pace {
  readonly speed: number
  readonly closedLoop: boolean
  readonly concurrency: number
  /** Interval at which the client looks for requests to send; absent: it never waits. */
  readonly pollMs?: number
  readonly holdAt: number | null
  readonly seed: number
  readonly clockMs: (() => number) | null
  readonly progress?: (done: number, of: number) => void
}

/** Replays a trace on a fleet with one router. */
export function replay(trace: Trace, fleet: FleetPlan, router: RouterKind, pace: Pace): RunResult {
  return run(trace, optionsOf(trace, fleet, router, pace))
}

/** Computes the speed of a load: a share of what the fleet sustains with `exact`. */
export function speedOf(load: number, trace: Trace, fleet: FleetPlan, pace: Omit<Pace, 'speed'>): number {
  return load * sustainedSpeed(trace, optionsOf(trace, fleet, exact, { ...pace, speed: 1 }))
}

/**
 * `speedOf` for several loads of one trace on one fleet. The sustained speed takes twenty runs to find and is computed
 * once per seed.
 */
export function speedsOn(fleet: FleetPlan): (load: number, trace: Trace, pace: Omit<Pace, 'speed'>) => number {
  const sustained = new Map<number, number>()
  return (load, trace, pace) => {
    const full = sustained.get(pace.seed) ?? speedOf(1, trace, fleet, pace)
    sustained.set(pace.seed, full)
    return load * full
  }
}

function optionsOf(trace: Trace, fleet: FleetPlan, router: RouterKind, pace: Pace): RunOptions {
  const { seed, ...rest } = pace
  const { rttMs, split, lmcache } = fleet
  const specs = fleet.engines.map(({ spec }) => spec)
  return {
    ...rest,
    rttMs,
    engines: fleet.engines.length,
    ...(lmcache === undefined
      ? {}
      : { makeLmcache: () => new LmcacheStore(fleet.engines.length, trace.blockTokens, lmcache) }),
    makeEngine: (at, listener, store) =>
      makeEngine(fleet.engines[at]!, trace.blockTokens, { listener, outside: store?.beside(at) ?? null }),
    makeRouter: (engines, store) =>
      router.create({
        engines,
        specs,
        lmcache: store,
        blockTokens: trace.blockTokens,
        random: chance(seed),
        rttMs,
        ...(split === undefined ? {} : { split }),
      }),
  }
}

function makeEngine(
  { model }: PlannedEngine,
  blockTokens: number,
  { listener, outside }: { readonly listener: JobListener; readonly outside: Outside | null },
): ReplayEngine {
  if (model.kind === 'serial') return new SerialEngine(model.options, listener)
  return new VllmEngine(inBlocksOf(blockTokens, model.profile), listener, outside)
}

/** The same machine with its cache divided into the trace's blocks, because prompts are known only by these. */
export function inBlocksOf(blockTokens: number, profile: Profile): Profile {
  const { limits } = profile
  const tokens = limits.cacheBlocks * limits.blockTokens
  return {
    ...profile,
    limits: {
      ...limits,
      blockTokens,
      cacheBlocks: Math.max(1, Math.floor(tokens / blockTokens)),
      maxModelLen: Infinity,
    },
  }
}

/** A machine that computes 8192 tokens per step: the cost model of vllm-router's program scheduling. */
const DEFAULT_PROFILE = 'agentic'

/**
 * Returns the simulator's profile of that name, or the gateway's prior of that name with the default's decode cost and
 * limits. Throws a RangeError that lists all names.
 */
export function engineProfile(name: string): Profile {
  const known = profiles[name]
  if (known !== undefined) return known
  const costModel = priorNamed(name)
  if (costModel === null)
    throw new RangeError(
      `unknown engine profile "${name}"; profiles: ${Object.keys(profiles).join(', ')}, or GPU-PARAMSb such as h100-8b`,
    )
  const base = profiles[DEFAULT_PROFILE]!
  const prefillStepMs = Math.max(0, costModel.fixedS * 1000 - base.costModel.stepMs)
  return {
    ...base,
    name,
    description: `Prior of ${name}.`,
    costModel: {
      ...base.costModel,
      prefillStepMs,
      prefillTokenMs: costModel.perTokenS * 1000,
      prefillPairMs: costModel.perPairS * 1000,
    },
  }
}

/** Changes the cache capacity of a profile, in tokens. */
export function withCacheTokens(profile: Profile, tokens: number): Profile {
  return {
    ...profile,
    limits: { ...profile.limits, cacheBlocks: Math.max(1, Math.floor(tokens / profile.limits.blockTokens)) },
  }
}

export function fleetOf(count: number, model: PlannedEngine['model'], rttMs = 0): FleetPlan {
  return { engines: Array.from({ length: count }, () => ({ model, spec: {} })), rttMs }
}
