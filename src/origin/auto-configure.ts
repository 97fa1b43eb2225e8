import type { Admission, ClusterSummary, PoolConfig } from '../core/contract/contract.ts'
import type { KvEventDelta, KvEventDeltaState } from '../core/kv-events/delta.ts'
import type { Admitted, Cluster } from '../ports.ts'

/** The configuration of one pool as this edge holds it now. */
export interface PoolSource {
  readonly version: number
  readonly pool: PoolConfig
}

async function summaryOf(cluster: Cluster, decisions: number): Promise<ClusterSummary> {
  return cluster.summary === undefined ? { digest: await cluster.digest(), decisions: [] } : cluster.summary(decisions)
}

/** An object without a configuration knows no engine at all. What it took the first time it takes no second time. */
async function feedTo(
  cluster: Cluster,
  feeds: readonly KvEventDelta[],
  configure: () => Promise<void>,
): Promise<readonly KvEventDeltaState[]> {
  const states = await cluster.feed!(feeds)
  if (!states.includes('unknown')) return states
  await configure()
  return cluster.feed!(feeds)
}

/** null: unconfigured; `admit` sees to that. */
function admittedNow(cluster: Cluster, admission: Admission): Admitted | null {
  const admitted = cluster.admitNow?.(admission) ?? null
  return admitted !== null && 'refusal' in admitted && admitted.refusal.reason === 'unconfigured' ? null : admitted
}

/**
 * A Cluster that gives its object the configuration when the object asks for it, so that callers never meet
 * `unconfigured`. Only what says it is unconfigured is asked again: a call costs one round trip as a rule.
 * @param source null: this edge has no such pool; the object is then left as it is.
 */
export function withAutoConfigure(cluster: Cluster, source: () => PoolSource | null): Cluster {
  let told = 0
  const configure = async () => {
    const current = source()
    if (current === null) throw new Error('the pool is not in the configuration')
    await cluster.configure(current.version, current.pool)
    told = current.version
  }
  const upToDate = async <Answer>(
    ask: () => Promise<Answer>,
    versionOf: (answer: Answer) => number,
  ): Promise<Answer> => {
    const answer = await ask()
    const current = source()
    if (current === null || versionOf(answer) >= current.version) return answer
    await configure()
    return ask()
  }
  return {
    configure: (version, pool) => cluster.configure(version, pool),
    explain: (id) => cluster.explain(id),
    ...(cluster.registry === undefined ? {} : { registry: (call) => cluster.registry!(call) }),
    ...(cluster.admitNow === undefined ? {} : { admitNow: (admission) => admittedNow(cluster, admission) }),
    async admit(admission, scope) {
      const admitted = await cluster.admit(admission, scope)
      if (!('refusal' in admitted) || admitted.refusal.reason !== 'unconfigured') return admitted
      await configure()
      return cluster.admit(admission, scope)
    },
    async rank(admission) {
      const ranked = await cluster.rank(admission)
      if (!('refusal' in ranked) || ranked.refusal.reason !== 'unconfigured') return ranked
      await configure()
      return cluster.rank(admission)
    },
    async resume(booking, scope) {
      try {
        return await cluster.resume(booking, scope)
      } catch {
        // It rejects when the object lost its configuration too; anything else fails a second time.
        await configure()
        return cluster.resume(booking, scope)
      }
    },
    async observe(signals) {
      // What is said of engines would be lost on an object that does not know them; an operator's word is said only
      // once.
      if (told !== source()?.version || signals.some(({ kind }) => kind === 'drain')) await configure()
      await cluster.observe(signals)
    },
    ...(cluster.feed === undefined ? {} : { feed: (feeds) => feedTo(cluster, feeds, configure) }),
    regionDigest: () =>
      upToDate(
        () => cluster.regionDigest(),
        ({ configVersion }) => configVersion,
      ),
    digest: () =>
      upToDate(
        () => cluster.digest(),
        ({ configVersion }) => configVersion,
      ),
    summary: (decisions) =>
      upToDate(
        () => summaryOf(cluster, decisions),
        ({ digest }) => digest.configVersion,
      ),
  }
}
