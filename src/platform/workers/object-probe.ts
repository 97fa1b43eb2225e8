/** Probes for a cluster object: it knows its engines by id, the configuration knows where they are. */
import type { EngineSignal, PoolConfig } from '../../core/contract/contract.ts'
import { toTargets } from '../../config/normalize.ts'
import { engineProbe } from '../../origin/probe.ts'
import type { ConfigEnv, ConfigSource } from './config-source.ts'
import { workersLog } from './ports.ts'
import { workersOrigin } from './origin.ts'

const log = workersLog(() => 'info')
/** As long as the isolate lives: see engineProbe. */
const unpausable = new Set<string>()

/** What the engines of `pool` say now. Empty when the configuration no longer has the pool. */
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
  const probe = engineProbe(workersOrigin({ bindings: { ...env } }), log, unpausable)
  const signals = await Promise.all([...toTargets(settings).values()].map((target) => probe(target, () => Date.now())))
  return signals.filter((signal) => signal !== null)
}
