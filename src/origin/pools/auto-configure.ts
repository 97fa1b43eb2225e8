import type { PoolConfig } from '../../core/contract/pool-config.ts'
import type {
  AdmitResult,
  KvEventFeed,
  LocalState,
  PoolDecisions,
  PoolOverview,
  PoolPort,
  PoolQueue,
  DryRunResult,
  WrappedPool,
} from '../../ports/pool.ts'

/** Current configuration of one pool at this gateway. */
export interface PoolSource {
  readonly version: number
  readonly pool: PoolConfig
}

/** Returns a capability with its calls wrapped; undefined: the pool has not got it. */
const wrapped = <Capability>(
  capability: Capability | undefined,
  wrap: (capability: Capability) => Capability,
): Capability | undefined => (capability === undefined ? undefined : wrap(capability))

const configuredLocal =
  (configurer: Configurer) =>
  (local: LocalState): LocalState => ({
    // null if the object is unconfigured, because `admit` of the pool then configures it.
    admit(admission) {
      const admitted = local.admit(admission)
      return admitted !== null && isUnconfigured(admitted) ? null : admitted
    },
    // Pool state in this process is configured before the promise resolves.
    apply(event) {
      const isApplied = local.apply(event)
      if (isApplied || event[0] !== 'book') return isApplied
      configurer.configure().catch(() => undefined)
      return local.apply(event)
    },
    watch: () => local.watch(),
  })

const configuredQueue =
  (configurer: Configurer) =>
  (queue: PoolQueue): PoolQueue => ({
    wait: (admission, waitedMs, scope) => configurer.configured(() => queue.wait(admission, waitedMs, scope)),
    leave: (key) => queue.leave(key),
  })

/** Repeats the feed after configuring, because an unconfigured object has no engines. Feeds are idempotent. */
const configuredFeed =
  (configurer: Configurer) =>
  (kvEvents: KvEventFeed): KvEventFeed => ({
    async feed(feeds) {
      const states = await kvEvents.feed(feeds)
      if (!states.includes('unknown')) return states
      await configurer.configure()
      return kvEvents.feed(feeds)
    },
  })

const configuredDecisions =
  (configurer: Configurer) =>
  (decisions: PoolDecisions): PoolDecisions => ({
    dryRun: (admission) => configurer.configured(() => decisions.dryRun(admission)),
    explain: (id) => decisions.explain(id),
  })

const configuredOverview =
  (configurer: Configurer) =>
  (overview: PoolOverview): PoolOverview => ({
    summary: (decisions, historySince) =>
      configurer.upToDate(
        () => overview.summary(decisions, historySince),
        ({ digest }) => digest.configVersion,
      ),
    digest: wrapped(overview.digest, (digest) => () => configurer.upToDate(digest, versionOf)),
  })

const versionOf = ({ configVersion }: { readonly configVersion: number }): number => configVersion

function isUnconfigured(answer: AdmitResult | DryRunResult): boolean {
  return 'refusal' in answer && answer.refusal.reason === 'unconfigured'
}

/** Gives a pool state its configuration. */
class Configurer {
  /** Version that this gateway sent last. */
  sentVersion = 0
  readonly #pool: PoolPort
  readonly #source: () => PoolSource | null

  constructor(pool: PoolPort, source: () => PoolSource | null) {
    this.#pool = pool
    this.#source = source
  }

  /** Throws if this gateway does not configure the pool. */
  async configure(): Promise<void> {
    const current = this.#source()
    if (current === null) throw new Error('the pool is not in the configuration')
    await this.#pool.configure(current.version, current.pool)
    this.sentVersion = current.version
  }

  /** Repeats the call after configuring if the answer belongs to an older configuration. */
  async upToDate<Answer>(call: () => Promise<Answer>, version: (answer: Answer) => number): Promise<Answer> {
    const answer = await call()
    const current = this.#source()
    if (current === null || version(answer) >= current.version) return answer
    await this.configure()
    return call()
  }

  /** Repeats the call after configuring if the object is unconfigured. */
  async configured<Answer extends AdmitResult | DryRunResult>(call: () => Promise<Answer>): Promise<Answer> {
    const answer = await call()
    if (!isUnconfigured(answer)) return answer
    await this.configure()
    return call()
  }
}

/**
 * Wraps a pool so that its object gets the configuration when it lacks one; callers never see `unconfigured`. The
 * configuration is sent only then, so that a call normally costs one round trip.
 * @param source null: this gateway has no such pool; the object is left as it is.
 */
export function withAutoConfigure(pool: PoolPort, source: () => PoolSource | null): WrappedPool {
  const configurer = new Configurer(pool, source)
  return {
    configure: (version, settings) => pool.configure(version, settings),
    admit: (admission, scope) => configurer.configured(() => pool.admit(admission, scope)),
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
    digest: () => configurer.upToDate(() => pool.digest(), versionOf),
    local: wrapped(pool.local, configuredLocal(configurer)),
    remote: pool.remote,
    queue: wrapped(pool.queue, configuredQueue(configurer)),
    registry: pool.registry,
    kvEvents: wrapped(pool.kvEvents, configuredFeed(configurer)),
    decisions: wrapped(pool.decisions, configuredDecisions(configurer)),
    overview: wrapped(pool.overview, configuredOverview(configurer)),
    costs: pool.costs,
    region: wrapped(pool.region, (region) => ({
      digest: () => configurer.upToDate(() => region.digest(), versionOf),
    })),
  }
}
