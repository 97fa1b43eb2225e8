import type { Admission, ClusterSummary, PoolConfig } from '../core/contract/contract.ts'
import type { KvEventDelta, KvEventDeltaState } from '../core/kv-events/delta-log.ts'
import type { Admitted, Cluster, Ranked } from '../ports.ts'

/** Current configuration of one pool at this edge. */
export interface PoolSource {
  readonly version: number
  readonly pool: PoolConfig
}

async function summaryOf(cluster: Cluster, decisions: number, historySince?: number): Promise<ClusterSummary> {
  return cluster.summary === undefined
    ? { digest: await cluster.digest(), decisions: [] }
    : cluster.summary(decisions, historySince)
}

/** Repeats the feed after configuring, because an unconfigured object has no engines. Feeds are idempotent. */
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

/** null if the object is unconfigured, because `admit` then configures it. */
function admittedNow(cluster: Cluster, admission: Admission): Admitted | null {
  const admitted = cluster.admitNow?.(admission) ?? null
  return admitted !== null && isUnconfigured(admitted) ? null : admitted
}

const optional = (cluster: Cluster, configurer: Configurer): Partial<Cluster> => ({
  ...waiting(cluster, configurer),
  ...(cluster.admitNow === undefined ? {} : { admitNow: (admission) => admittedNow(cluster, admission) }),
  ...(cluster.applyNow === undefined ? {} : { applyNow: (event) => appliedNow(cluster, event, configurer) }),
})

const waiting = (cluster: Cluster, configurer: Configurer): Pick<Cluster, 'wait' | 'leave'> =>
  cluster.wait === undefined
    ? {}
    : {
        wait: (admission, waitedMs, scope) => configurer.configured(() => cluster.wait!(admission, waitedMs, scope)),
        leave: (key) => cluster.leave!(key),
      }

/** Repeats a booking after configuring. Pool state in this process is configured before the promise resolves. */
function appliedNow(
  cluster: Cluster,
  event: Parameters<NonNullable<Cluster['applyNow']>>[0],
  configurer: Configurer,
): boolean {
  const isApplied = cluster.applyNow!(event)
  if (isApplied || event[0] !== 'book') return isApplied
  configurer.configure().catch(() => undefined)
  return cluster.applyNow!(event)
}

function isUnconfigured(answer: Admitted | Ranked): boolean {
  return 'refusal' in answer && answer.refusal.reason === 'unconfigured'
}

/** Gives a cluster object its configuration. */
class Configurer {
  /** Version that this edge sent last. */
  sentVersion = 0
  readonly #cluster: Cluster
  readonly #source: () => PoolSource | null

  constructor(cluster: Cluster, source: () => PoolSource | null) {
    this.#cluster = cluster
    this.#source = source
  }

  /** Throws if this edge does not configure the pool. */
  async configure(): Promise<void> {
    const current = this.#source()
    if (current === null) throw new Error('the pool is not in the configuration')
    await this.#cluster.configure(current.version, current.pool)
    this.sentVersion = current.version
  }

  /** Repeats the call after configuring if the answer belongs to an older configuration. */
  async upToDate<Answer>(call: () => Promise<Answer>, versionOf: (answer: Answer) => number): Promise<Answer> {
    const answer = await call()
    const current = this.#source()
    if (current === null || versionOf(answer) >= current.version) return answer
    await this.configure()
    return call()
  }

  /** Repeats the call after configuring if the object is unconfigured. */
  async configured<Answer extends Admitted | Ranked>(call: () => Promise<Answer>): Promise<Answer> {
    const answer = await call()
    if (!isUnconfigured(answer)) return answer
    await this.configure()
    return call()
  }
}

/**
 * Wraps a Cluster so that its object gets the configuration when it lacks one; callers never see `unconfigured`. The
 * configuration is sent only then, so that a call normally costs one round trip.
 * @param source null: this edge has no such pool; the object is left as it is.
 */
export function withAutoConfigure(cluster: Cluster, source: () => PoolSource | null): Cluster {
  const configurer = new Configurer(cluster, source)
  return {
    configure: (version, pool) => cluster.configure(version, pool),
    explain: (id) => cluster.explain(id),
    ...(cluster.registry === undefined ? {} : { registry: (call) => cluster.registry!(call) }),
    ...optional(cluster, configurer),
    ...(cluster.admitLimitMs === undefined ? {} : { admitLimitMs: () => cluster.admitLimitMs!() }),
    admit: (admission, scope) => configurer.configured(() => cluster.admit(admission, scope)),
    rank: (admission) => configurer.configured(() => cluster.rank(admission)),
    async resume(booking, scope) {
      try {
        return await cluster.resume(booking, scope)
      } catch {
        // The call also rejects if the object lost its configuration; any other cause fails again.
        await configurer.configure()
        return cluster.resume(booking, scope)
      }
    },
    async observe(signals) {
      // An object would drop signals of engines it does not know, and an operator sends a drain only once.
      const isDrain = signals.some(({ kind }) => kind === 'drain')
      if (isDrain || configurer.sentVersion !== source()?.version) await configurer.configure()
      return cluster.observe(signals)
    },
    ...(cluster.feed === undefined ? {} : { feed: (feeds) => feedTo(cluster, feeds, () => configurer.configure()) }),
    regionDigest: () =>
      configurer.upToDate(
        () => cluster.regionDigest(),
        ({ configVersion }) => configVersion,
      ),
    digest: () =>
      configurer.upToDate(
        () => cluster.digest(),
        ({ configVersion }) => configVersion,
      ),
    ...(cluster.fleetDigest === undefined
      ? {}
      : {
          fleetDigest: () =>
            configurer.upToDate(
              () => cluster.fleetDigest!(),
              ({ configVersion }) => configVersion,
            ),
        }),
    summary: (decisions, historySince) =>
      configurer.upToDate(
        () => summaryOf(cluster, decisions, historySince),
        ({ digest }) => digest.configVersion,
      ),
  }
}
