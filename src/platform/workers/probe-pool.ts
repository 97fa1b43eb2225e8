/** Probes engines for a cluster object: the object has their ids, the configuration has their addresses. */
import type { Config } from '../../config.ts'
import { toTargets } from '../../config/engine-targets.ts'
import type { EngineSignal } from '../../core/contract/engine-signal.ts'
import type { PoolConfig } from '../../core/contract/pool-config.ts'
import type { TrialOrder } from '../../core/pool/condition/engine-watch.ts'
import { engineProbe, forgetContext, newProbeMemory } from '../../origin/probes/engine-probe.ts'
import { tryEngine } from '../../origin/probes/engine-trial.ts'
import { targetOf } from '../../origin/rank-targets.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { TrialVerdict } from '../../ports/probe.ts'
import type { ConfigEnv, ConfigSource } from './config-source.ts'
import { workersLog } from './log.ts'
import { workersOrigin } from './origin.ts'

const log = workersLog(() => 'info')

/** Lives as long as the isolate, unlike the HTTP client of a probe. */
const memory = newProbeMemory()

/** Probes the engines of `pool`. Returns nothing if the configuration no longer has the pool. */
export async function probePool(
  pool: PoolConfig,
  env: ConfigEnv,
  source: ConfigSource,
): Promise<readonly EngineSignal[]> {
  const config = await configOf(env, source)
  if (config === null) return []
  const probe = engineProbe(workersOrigin({ bindings: { ...env } }), log, memory)
  const signals = await Promise.all(targetsOf(pool, config).map((target) => probe(target, () => Date.now())))
  return signals.filter((signal) => signal !== null)
}

/** Asks one engine of `pool` for a token. null: the configuration no longer has it. */
export async function tryPoolEngine(
  { pool, order }: { readonly pool: PoolConfig; readonly order: TrialOrder },
  env: ConfigEnv,
  source: ConfigSource,
): Promise<TrialVerdict | null> {
  const config = await configOf(env, source)
  if (config === null) return null
  const targets = new Map(targetsOf(pool, config).map((target) => [target.id, target]))
  const target = targetOf(targets, order.engine)
  if (target === undefined) return null
  forgetContext(memory, target)
  const origin = workersOrigin({ bindings: { ...env } })
  const parts = { origin, log, now: () => Date.now(), known: memory.known, via: config.via }
  return tryEngine(parts, target, order.limitMs)
}

/** null: there is no valid configuration. */
async function configOf(env: ConfigEnv, source: ConfigSource): Promise<Config | null> {
  const loaded = await source.current(env, (work) => void work.catch(() => {}))
  return 'problem' in loaded ? null : loaded.config
}

function targetsOf(pool: PoolConfig, config: Config): EngineTarget[] {
  const settings = config.clusters.find(({ id }) => id === pool.cluster)?.pools.find(({ model }) => model === pool.pool)
  if (settings === undefined) return []
  const own = new Set(pool.engines.map(({ id }) => id))
  // An object of a pool with several has a part of the engines.
  return [...toTargets(settings).values()].filter(({ id, kind }) => own.has(id) && kind !== 'provider')
}
