/**
 * Fleets of unequal engines. The gateway gets no profile of any of them. In each fleet one engine is half as fast as
 * its profile, and another changes its speed at run time.
 */
import { engineProfile, withCacheTokens } from '../../replay/src/replay/engine-profile.ts'
import type { FleetPlan, PlannedEngine } from '../../replay/src/replay/plan.ts'
import type { Trace } from '../../replay/src/replay/trace.ts'
import type { Profile } from '../../simulator/src/profiles.ts'
import type { StepCostModel } from '../../simulator/src/step-cost.ts'
import { type MeasuredName, measuredProfile } from './measured-profiles.ts'

export interface MixedFleet {
  readonly name: string
  /** Engines for a trace: their caches hold at least its longest request. */
  readonly planFor: (trace: Trace) => FleetPlan
}

/** Time for which the changing engine keeps a speed, ms: full speed first, then half of it. */
const CHANGE_MS = 90_000

/** Published: memory bandwidth in GB/s, from NVIDIA's data sheets, and a cache by what 16 GB of weights leave. */
const GPUS = {
  'h100-8b': { bandwidth: 3_350, cacheTokens: 400_000 },
  'a100-8b': { bandwidth: 2_039, cacheTokens: 400_000 },
  'l40s-8b': { bandwidth: 864, cacheTokens: 180_000 },
} as const

/** Weights of an 8B model and KV of a token, GB, and the share of the bandwidth that decodes reach. */
const WEIGHTS_GB = 16
const TOKEN_GB = 131_072 / 1e9
const BANDWIDTH_SHARE = 0.7

type GpuName = keyof typeof GPUS

function publishedProfile(name: GpuName): Profile {
  const profile = withCacheTokens(engineProfile(name), GPUS[name].cacheTokens)
  const msPerGb = 1_000 / (GPUS[name].bandwidth * BANDWIDTH_SHARE)
  const costModel = {
    ...profile.costModel,
    stepMs: WEIGHTS_GB * msPerGb,
    decodeContextTokenMs: TOKEN_GB * msPerGb,
    decodeSequenceMs: 0.05,
  }
  return { ...profile, costModel }
}

type Engines = readonly (readonly [count: number, profile: Profile])[]

export function fleetsOf(folder: string | null, isQuick: boolean): MixedFleet[] {
  const [h100, a100, l40s] = (['h100-8b', 'a100-8b', 'l40s-8b'] as const).map(publishedProfile) as [
    Profile,
    Profile,
    Profile,
  ]
  const published = [
    fleet('published_4_4', [
      [4, h100],
      [4, l40s],
    ]),
    fleet('published_2_6', [
      [2, h100],
      [3, a100],
      [3, l40s],
    ]),
  ]
  if (folder === null) return published
  const measured = (name: MeasuredName): Profile => measuredProfile(folder, name, isQuick ? 40 : 150)
  const fast = measured('pro6000_8b')
  const large = fleet('measured_4_4', [
    [4, fast],
    [4, measured('pro6000x2_32b')],
  ])
  if (isQuick) return [published[0]!, large]
  const small = fleet('measured_2_6', [
    [2, fast],
    [3, measured('rtx4090_8b')],
    [3, measured('pro6000_30b_a3b')],
  ])
  return [...published, large, small]
}

function fleet(name: string, engines: Engines): MixedFleet {
  const profiles = engines.flatMap(([count, profile]) => Array.from({ length: count }, () => profile))
  return {
    name,
    planFor: (trace) => ({
      rttMs: 0,
      engines: profiles.map((profile, at) => plannedEngine(fitting(profile, trace), at, profiles.length)),
    }),
  }
}

/** The first engine changes its speed, the last one is half as fast as its profile. */
function plannedEngine(profile: Profile, at: number, engines: number): PlannedEngine {
  const isSlow = at === engines - 1
  const slowdown = at === 0 ? (now: number) => 1 + (Math.floor(now / CHANGE_MS) % 2) : undefined
  return {
    model: {
      kind: 'vllm',
      profile: isSlow ? { ...profile, costModel: slower(profile.costModel, 2) } : profile,
      ...(slowdown === undefined ? {} : { slowdown }),
    },
    spec: {},
  }
}

function slower(costModel: StepCostModel, factor: number): StepCostModel {
  const { expertShare, ...times } = costModel
  const scaled = Object.fromEntries(Object.entries(times).map(([name, ms]) => [name, ms * factor]))
  return { ...(scaled as unknown as StepCostModel), ...(expertShare === undefined ? {} : { expertShare }) }
}

/** Small caches are enlarged to the longest request: an engine refuses what can never fit. */
function fitting(profile: Profile, { requests, blockTokens }: Trace): Profile {
  const longest = requests.reduce((max, one) => Math.max(max, one.promptTokens + one.outputTokens), 0)
  const own = profile.limits.cacheBlocks * profile.limits.blockTokens
  return withCacheTokens(profile, Math.max(own, longest + 4 * blockTokens))
}
