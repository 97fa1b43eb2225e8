/** Ways to choose among regions, and a run with one of them. */
import { chance } from '../../replay/src/replay/chance.ts'
import type { FleetPlan, Pace } from '../../replay/src/replay/plan.ts'
import { inBlocksOf } from '../../replay/src/replay/engine-profile.ts'
import { run, type RunResult } from '../../replay/src/replay/run.ts'
import type { Trace } from '../../replay/src/replay/trace.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import { VllmEngine } from '../../replay/src/replay/vllm-engine.ts'
import { Edges, Everywhere, type RegionKnowledge } from './edges.ts'
import type { Places } from './places.ts'
import { Region, type Trip } from './region.ts'

export interface Way {
  readonly name: string
  /** Interval of digests; null: none. */
  readonly everyMs: number | null
  readonly knowing: RegionKnowledge | 'all'
}

const POLICY = { name: 'predicted', options: {} }

/** @param everyMs intervals of digests */
export function waysIn(names: readonly string[], everyMs: readonly number[]): Way[] {
  const each = (name: string, knowing: (everyMs: number) => RegionKnowledge) =>
    everyMs.map((ms) => ({ name, everyMs: ms, knowing: knowing(ms) }))
  const makers: Readonly<Record<string, () => Way[]>> = {
    global: () => [{ name: 'global', everyMs: null, knowing: 'all' }],
    nearest: () => [{ name: 'nearest', everyMs: null, knowing: { kind: 'nearest' } }],
    weights: () => [{ name: 'weights', everyMs: null, knowing: { kind: 'weights' } }],
    load: () => each('load', (ms) => ({ kind: 'load', everyMs: ms })),
    digest: () => each('digest', (ms) => ({ kind: 'digest', everyMs: ms, prefixes: true })),
    digest_blind: () => each('digest_blind', (ms) => ({ kind: 'digest', everyMs: ms, prefixes: false })),
  }
  return names.flatMap((name) => {
    if (!Object.hasOwn(makers, name))
      throw new RangeError(`no way is called "${name}": choose among ${Object.keys(makers).join(', ')}`)
    return makers[name]!()
  })
}

export interface RegionalRun {
  readonly places: Places
  readonly entries: Uint8Array
  readonly way: Way
  readonly seed: number
  readonly pace: Omit<Pace, 'seed'>
}

/** A job's `engine` is the region that served it. */
export function replayIn(
  trace: Trace,
  fleet: FleetPlan,
  { places, entries, way: { knowing }, seed, pace }: RegionalRun,
): RunResult {
  const { blockTokens } = trace
  const trips = new Map<Job, Trip>()
  const each = fleet.engines.length / places.regions
  const { model } = fleet.engines[0]!
  if (model.kind !== 'vllm') throw new Error('regions have engines of one kind')
  const profile = inBlocksOf(blockTokens, model.profile)
  const options = { places, entries, trips, blockTokens, random: chance(seed) }
  return run(trace, {
    ...pace,
    rttMs: 0,
    engines: places.regions,
    makeEngine: (at, listener) =>
      new Region(
        {
          engines: each,
          makeEngine: (inner) => new VllmEngine(profile, inner),
          policy: POLICY,
          blockTokens,
          random: chance(seed + 10 + at),
          tripOf: (job) => trips.get(job)!,
        },
        listener,
      ),
    makeRouter: (engines) => {
      const regions = engines as readonly Region[]
      return knowing === 'all'
        ? new Everywhere({ ...options, policy: POLICY }, regions)
        : new Edges({ ...options, knowing }, regions)
    },
  })
}
