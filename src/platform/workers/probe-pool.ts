/** Probes engines for a cluster object: the object has their ids, the configuration has their addresses. */
import { toTargets } from '../../config/engine-targets.ts'
import type { EngineSignal } from '../../core/contract/engine-signal.ts'
import type { PoolConfig } from '../../core/contract/pool-config.ts'
import { engineProbe, newProbeMemory } from '../../origin/engine-probe.ts'
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
  const loaded = await source.current(env, (work) => void work.catch(() => {}))
  if ('problem' in loaded) return []
  const settings = loaded.config.clusters
    .find(({ id }) => id === pool.cluster)
    ?.pools.find(({ model }) => model === pool.pool)
  if (settings === undefined) return []
  const probe = engineProbe(workersOrigin({ bindings: { ...env } }), log, memory)
  const own = new Set(pool.engines.map(({ id }) => id))
  // An object of a pool with several has a part of the engines.
  const targets = [...toTargets(settings).values()].filter(({ id, external }) => own.has(id) && external === undefined)
  const signals = await Promise.all(targets.map((target) => probe(target, () => Date.now())))
  return signals.filter((signal) => signal !== null)
}
