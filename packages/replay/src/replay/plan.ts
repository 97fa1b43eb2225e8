import type { EngineSpec, PoolConfig } from '../../../../src/core/contract/pool-config.ts'
import type { Profile } from '../../../simulator/src/profiles.ts'
import { chance } from './chance.ts'
import { inBlocksOf } from './engine-profile.ts'
import { type LmcacheOptions, LmcacheStore } from './lmcache-store.ts'
import type { JobListener, ReplayEngine } from './replay-engine.ts'
import type { RouterKind } from './router.ts'
import { run, type RunOptions, type RunResult } from './run.ts'
import { SerialEngine, type SerialOptions } from './serial-engine.ts'
import type { Trace } from './trace.ts'
import { type ExternalCache, type Slowdown, VllmEngine } from './vllm-engine.ts'

/** One engine of the simulated fleet. */
export interface PlannedEngine {
  readonly model:
    | { readonly kind: 'vllm'; readonly profile: Profile; readonly slowdown?: Slowdown }
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
  /** Adds engines like the first one of the fleet, which has none otherwise; absent: the fleet stays as it is. */
  readonly scale?: NonNullable<RunOptions['scale']>
}

/** Replays a trace on a fleet with one router. */
export function replay(trace: Trace, fleet: FleetPlan, router: RouterKind, pace: Pace): RunResult {
  return run(trace, optionsOf(trace, fleet, router, pace))
}

export function optionsOf(trace: Trace, fleet: FleetPlan, router: RouterKind, pace: Pace): RunOptions {
  const { seed, ...rest } = pace
  const { rttMs, split, lmcache } = fleet
  const specs = fleet.engines.map(({ spec }) => spec)
  return {
    ...rest,
    rttMs,
    engines: pace.scale === undefined ? fleet.engines.length : 0,
    ...(lmcache === undefined
      ? {}
      : { makeLmcache: () => new LmcacheStore(fleet.engines.length, trace.blockTokens, lmcache) }),
    makeEngine: (at, listener, store) =>
      makeEngine(fleet.engines[pace.scale === undefined ? at : 0]!, trace.blockTokens, {
        listener,
        externalCache: store?.cacheOf(at) ?? null,
      }),
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
  { listener, externalCache }: { readonly listener: JobListener; readonly externalCache: ExternalCache | null },
): ReplayEngine {
  if (model.kind === 'serial') return new SerialEngine(model.options, listener)
  const { profile, slowdown = null } = model
  return new VllmEngine(inBlocksOf(blockTokens, profile), listener, { externalCache, slowdown })
}

export function fleetOf(count: number, model: PlannedEngine['model'], rttMs = 0): FleetPlan {
  return { engines: Array.from({ length: count }, () => ({ model, spec: {} })), rttMs }
}
