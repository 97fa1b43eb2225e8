import type { EngineConfig, PoolSettings } from '../../../../src/config.ts'
import { isProvider } from '../../../../src/config/is-provider.ts'
import type { Env } from '../../../../src/config/parse-options.ts'
import type { Profile } from '../../../simulator/src/profiles.ts'
import { engineProfile, withCacheTokens } from '../replay/engine-profile.ts'
import { type FleetPlan, fleetOf, type PlannedEngine } from '../replay/plan.ts'
import { LMCACHE_DEFAULTS, type LmcacheOptions } from '../replay/lmcache-store.ts'
import { anySecret, loadConfig } from '../../../../src/platform/node/load-config.ts'
import { readInput } from '../../../../src/platform/node/usage-error.ts'
import type { Args } from '../../../../src/cli/commands/command.ts'
import { UsageError } from '../../../../src/platform/node/usage-error.ts'

export const DEFAULT_PROFILE = 'agentic'
const DEFAULT_ENGINES = 8

/** The fleet to simulate, from a configuration or from flags, with LMCache where it is asked for. */
export function fleetPlanOf(args: Args, env: Env, blockTokens: number): FleetPlan {
  const lmcache = lmcacheOf(args.text('lmcache'))
  const fleet = bareFleetOf(args, env, blockTokens)
  if (lmcache === null) return fleet
  if (fleet.engines.some(({ model }) => model.kind === 'serial'))
    throw new UsageError(
      '--lmcache needs engines of vLLM’s kind; `serial` has no cache outside itself.',
      'Choose another --profile.',
    )
  return { ...fleet, lmcache }
}

const LMCACHE_KEYS = {
  host: 'hostTokens',
  disk: 'diskTokens',
  remote: 'remoteTokens',
  host_us: 'hostTokenUs',
  disk_us: 'diskTokenUs',
  remote_us: 'remoteTokenUs',
  report_ms: 'reportMs',
} as const satisfies Readonly<Record<string, keyof LmcacheOptions>>

/** `host=400000,disk=4000000,report_ms=500`: tokens by tier, and what differs from the usual. */
function lmcacheOf(text: string | null): LmcacheOptions | null {
  if (text === null) return null
  const example = 'Example: --lmcache host=400000,disk=4000000,report_ms=500'
  const given = text.split(',').map((part) => {
    const [name = '', value = ''] = part.trim().split('=')
    const key = LMCACHE_KEYS[name as keyof typeof LMCACHE_KEYS]
    if (key === undefined)
      throw new UsageError(`--lmcache has no "${name}"; choose among ${Object.keys(LMCACHE_KEYS).join(', ')}.`, example)
    const number = Number(value)
    if (value === '' || !(number >= 0 && number <= 1e12))
      throw new UsageError(`--lmcache: ${name} must be a number from 0, got "${value}".`, example)
    return [key, number] as const
  })
  return { ...LMCACHE_DEFAULTS, ...Object.fromEntries(given) }
}

function bareFleetOf(args: Args, env: Env, blockTokens: number): FleetPlan {
  const rttMs = args.number('rtt-ms', { min: 0, max: 60_000 })
  const cacheTokens = args.whole('cache-tokens', { min: 1, max: 1e12 })
  const config = args.text('config')
  if (config !== null)
    return configuredFleet(poolOf(config, args.text('pool'), env), {
      rttMs,
      cacheTokens,
      profile: args.text('profile'),
    })
  const engines = args.whole('engines', { min: 1, max: 1024 }) ?? DEFAULT_ENGINES
  const name = args.text('profile') ?? DEFAULT_PROFILE
  return fleetOf(
    engines,
    name === 'serial'
      ? serial(blockTokens, cacheTokens)
      : { kind: 'vllm', profile: sized(profileOf(name), cacheTokens) },
    rttMs ?? 0,
  )
}

/** The plain engine of the published comparison of gateways: 8,000 prompt tokens a second, 20 ms a token of output. */
function serial(blockTokens: number, cacheTokens: number | null): PlannedEngine['model'] {
  const cacheBlocks = cacheTokens === null ? 2000 : Math.max(1, Math.floor(cacheTokens / blockTokens))
  return { kind: 'serial', options: { blockTokens, cacheBlocks, prefillBlockMs: blockTokens / 8, decodeTokenMs: 20 } }
}

function sized(profile: Profile, cacheTokens: number | null): Profile {
  return cacheTokens === null ? profile : withCacheTokens(profile, cacheTokens)
}

/** A profile's name, or a file that `firstlight calibrate` wrote. */
function profileOf(name: string): Profile {
  if (name.endsWith('.json')) return fileProfile(name)
  try {
    return engineProfile(name)
  } catch (error) {
    if (error instanceof RangeError)
      throw new UsageError(`--profile: ${error.message}.`, 'Or measure your own: firstlight calibrate --help')
    throw error
  }
}

function fileProfile(file: string): Profile {
  const next = `firstlight calibrate writes such a file.`
  const text = readInput(file, next).toString('utf8')
  let found: { readonly profile?: Partial<Profile> }
  try {
    found = JSON.parse(text) as typeof found
  } catch {
    throw new UsageError(`${file} is not JSON.`, next)
  }
  const { costModel, limits } = found.profile ?? {}
  const numbers = [...Object.values(costModel ?? {}), ...Object.values(limits ?? {})]
  if (
    costModel === undefined ||
    limits === undefined ||
    numbers.some((value) => typeof value !== 'number' || !(value >= 0))
  )
    throw new UsageError(`${file} holds no engine profile.`, next)
  return { name: file, description: '', costModel, limits }
}

function poolOf(file: string, model: string | null, env: Env): PoolSettings {
  const { config } = loadConfig(file, env, anySecret)
  // Engines behind another gateway are unknown here.
  const pools = config.clusters.flatMap(({ gateway, pools: own }) => (gateway === null ? own : []))
  const pool = model === null ? pools[0] : pools.find((one) => one.model === model || one.aliases.includes(model))
  if (pool !== undefined && pool.engines.length > 0) return pool
  const known = pools.filter(({ engines }) => engines.length > 0).map((one) => one.model)
  throw new UsageError(
    model === null ? `${file} has no pool with engines.` : `${file} has no pool "${model}" with engines.`,
    `Pools with engines: ${known.join(', ') || 'none'}.`,
  )
}

interface FleetFlags {
  readonly rttMs: number | null
  readonly cacheTokens: number | null
  readonly profile: string | null
}

function configuredFleet(pool: PoolSettings, flags: FleetFlags): FleetPlan {
  const { mode, thresholdTokens, fallback } = pool.split
  const rttMs = flags.rttMs ?? Math.max(...pool.engines.map((engine) => engine.rttMs))
  return {
    // A provider's speed is unknown, and no policy chooses it.
    engines: pool.engines
      .filter((engine) => !isProvider(engine))
      .map((engine) => plannedEngine(engine, pool.blockTokens, flags)),
    rttMs,
    split: { mode, thresholdTokens, fallback },
  }
}

function plannedEngine(engine: EngineConfig, blockTokens: number, flags: FleetFlags): PlannedEngine {
  const cacheTokens = flags.cacheTokens ?? (engine.cacheBlocks === null ? null : engine.cacheBlocks * blockTokens)
  const profile = sized(profileOf(flags.profile ?? engine.profile ?? DEFAULT_PROFILE), cacheTokens)
  const { role, weight, maxInFlight, prefixCaching } = engine
  return {
    model: { kind: 'vllm', profile },
    spec: { role, weight, maxInFlight, prefixCaching, profile: engine.profile },
  }
}
