import type { Admission } from '../../core/contract/admission.ts'
import type { PoolSummary } from '../../core/contract/pool-digest.ts'
import type { PoolConfig } from '../../core/contract/pool-config.ts'
import type { KvEventDelta, KvEventDeltaState } from '../../core/kv-events/event-delta.ts'
import type { AdmitResult, PoolPort, RankOutcome } from '../../ports/pool.ts'

/** Current configuration of one pool at this edge. */
export interface PoolSource {
  readonly version: number
  readonly pool: PoolConfig
}

async function summaryOf(pool: PoolPort, decisions: number, historySince?: number): Promise<PoolSummary> {
  return pool.summary === undefined
    ? { digest: await pool.digest(), decisions: [] }
    : pool.summary(decisions, historySince)
}

/** Repeats the feed after configuring, because an unconfigured object has no engines. Feeds are idempotent. */
async function feedTo(
  pool: PoolPort,
  feeds: readonly KvEventDelta[],
  configure: () => Promise<void>,
): Promise<readonly KvEventDeltaState[]> {
  const states = await pool.feed!(feeds)
  if (!states.includes('unknown')) return states
  await configure()
  return pool.feed!(feeds)
}

/** null if the object is unconfigured, because `admit` then configures it. */
function admitNow(pool: PoolPort, admission: Admission): AdmitResult | null {
  const admitted = pool.admitNow?.(admission) ?? null
  return admitted !== null && isUnconfigured(admitted) ? null : admitted
}

const optionalMethods = (pool: PoolPort, configurer: Configurer): Partial<PoolPort> => ({
  ...queueMethods(pool, configurer),
  ...(pool.admitNow === undefined ? {} : { admitNow: (admission) => admitNow(pool, admission) }),
  ...(pool.costOf === undefined ? {} : { costOf: (key) => pool.costOf!(key) }),
  ...(pool.watchNow === undefined ? {} : { watchNow: () => pool.watchNow!() }),
  ...(pool.applyNow === undefined ? {} : { applyNow: (event) => applyNow(pool, event, configurer) }),
})

const queueMethods = (pool: PoolPort, configurer: Configurer): Pick<PoolPort, 'wait' | 'leave'> =>
  pool.wait === undefined
    ? {}
    : {
        wait: (admission, waitedMs, scope) => configurer.configured(() => pool.wait!(admission, waitedMs, scope)),
        leave: (key) => pool.leave!(key),
      }

/** Repeats a booking after configuring. Pool state in this process is configured before the promise resolves. */
function applyNow(
  pool: PoolPort,
  event: Parameters<NonNullable<PoolPort['applyNow']>>[0],
  configurer: Configurer,
): boolean {
  const isApplied = pool.applyNow!(event)
  if (isApplied || event[0] !== 'book') return isApplied
  configurer.configure().catch(() => undefined)
  return pool.applyNow!(event)
}

function isUnconfigured(answer: AdmitResult | RankOutcome): boolean {
  return 'refusal' in answer && answer.refusal.reason === 'unconfigured'
}

/** Gives a cluster object its configuration. */
class Configurer {
  /** Version that this edge sent last. */
  sentVersion = 0
  readonly #pool: PoolPort
  readonly #source: () => PoolSource | null

  constructor(pool: PoolPort, source: () => PoolSource | null) {
    this.#pool = pool
    this.#source = source
  }

  /** Throws if this edge does not configure the pool. */
  async configure(): Promise<void> {
    const current = this.#source()
    if (current === null) throw new Error('the pool is not in the configuration')
    await this.#pool.configure(current.version, current.pool)
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
  async configured<Answer extends AdmitResult | RankOutcome>(call: () => Promise<Answer>): Promise<Answer> {
    const answer = await call()
    if (!isUnconfigured(answer)) return answer
    await this.configure()
    return call()
  }
}

/**
 * Wraps a pool so that its object gets the configuration when it lacks one; callers never see `unconfigured`. The
 * configuration is sent only then, so that a call normally costs one round trip.
 * @param source null: this edge has no such pool; the object is left as it is.
 */
export function withAutoConfigure(pool: PoolPort, source: () => PoolSource | null): PoolPort {
  const configurer = new Configurer(pool, source)
  return {
    configure: (version, settings) => pool.configure(version, settings),
    explain: (id) => pool.explain(id),
    ...(pool.registry === undefined ? {} : { registry: (call) => pool.registry!(call) }),
    ...optionalMethods(pool, configurer),
    ...(pool.admitLimitMs === undefined ? {} : { admitLimitMs: () => pool.admitLimitMs!() }),
    admit: (admission, scope) => configurer.configured(() => pool.admit(admission, scope)),
    rank: (admission) => configurer.configured(() => pool.rank(admission)),
    async resume(booking, scope) {
      try {
        return await pool.resume(booking, scope)
      } catch {
        // The call also rejects if the object lost its configuration; any other cause fails again.
        await configurer.configure()
        return pool.resume(booking, scope)
      }
    },
    async observe(signals) {
      // An object would drop signals of engines it does not know, and an operator sends a drain only once.
      const isDrain = signals.some(({ kind }) => kind === 'drain')
      if (isDrain || configurer.sentVersion !== source()?.version) await configurer.configure()
      return pool.observe(signals)
    },
    ...(pool.feed === undefined ? {} : { feed: (feeds) => feedTo(pool, feeds, () => configurer.configure()) }),
    regionDigest: () =>
      configurer.upToDate(
        () => pool.regionDigest(),
        ({ configVersion }) => configVersion,
      ),
    digest: () =>
      configurer.upToDate(
        () => pool.digest(),
        ({ configVersion }) => configVersion,
      ),
    ...(pool.fleetDigest === undefined
      ? {}
      : {
          fleetDigest: () =>
            configurer.upToDate(
              () => pool.fleetDigest!(),
              ({ configVersion }) => configVersion,
            ),
        }),
    summary: (decisions, historySince) =>
      configurer.upToDate(
        () => summaryOf(pool, decisions, historySince),
        ({ digest }) => digest.configVersion,
      ),
  }
}
