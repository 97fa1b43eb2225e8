import { ModelRegistry } from '../../../api/model-registry.ts'
import type { Config } from '../../../config.ts'
import { memoryLimiter } from '../../../memory-limiter.ts'
import { DigestCache } from '../../../origin/digests/digest-cache.ts'
import type { PoolRoute } from '../../../origin/pool-route.ts'
import { FleetProbe } from '../../../origin/probes/fleet-probe.ts'
import { targetOf } from '../../../origin/rank-targets.ts'
import type { PoolPort } from '../../../ports/pool.ts'
import { withTimeout } from '../../../timeout.ts'
import type { FencedEngines } from '../../../origin/pause/running-bookings.ts'
import type { GroupQuery } from '../../../api/worker-group.ts'
import type { NodePorts } from '../ports.ts'
import { threadLines } from '../standard-output.ts'
import { ThreadBookings } from './thread-bookings.ts'
import { LimitHost } from './limit-host.ts'
import type { ToMain } from './messages.ts'
import { poolNames } from './pool-numbers.ts'
import { StoredResponseHost } from './stored-response-host.ts'
import type { ThreadStart } from './thread.ts'
import { ThreadSupervisor, type ThreadSupervisorParts } from './thread-supervisor.ts'

/** All files of the bundle are in one folder. */
const ENTRY = new URL(import.meta.url.endsWith('.ts') ? './entry.ts' : './thread.mjs', import.meta.url)

/** Limit of a query. Threads that answer later are left out. */
const ANSWER_MS = 1_000

/**
 * Time that a lookup of a stored response waits for a thread. A 404 would be wrong, and a thread that exited rejects
 * at once.
 */
const LOOKUP_MS = 10_000

interface MainThreadOptions {
  /** Number of I/O threads. */
  readonly count: number
  /** Folder of relative file names. */
  readonly folder: string
}

/** State that exists once, whatever the number of threads, and the supervisors of the threads. */
export class MainThread {
  readonly threads: readonly ThreadSupervisor[]
  prober: FleetProbe
  #start: Omit<ThreadStart, 'number' | 'folder' | 'logLines'>
  readonly #ports: NodePorts
  #pools: readonly { readonly pool: PoolPort; readonly route: PoolRoute | null }[]
  readonly #responses: StoredResponseHost
  readonly #limits: LimitHost

  /** The threads are not started yet. */
  constructor(config: Config, ports: NodePorts, { count, folder }: MainThreadOptions) {
    this.#ports = ports
    this.#limits = new LimitHost(ports.shared.limiter ?? memoryLimiter(() => ports.now()))
    this.#responses = new StoredResponseHost(ports.shared.storedResponses, (from) => this.#othersThan(from), LOOKUP_MS)
    this.#start = {
      config,
      pools: poolNames(config),
      bodyKib: new SharedArrayBuffer(count * Int32Array.BYTES_PER_ELEMENT),
      startedAt: Date.now(),
      configRefusedAt: null,
    }
    const models = new ModelRegistry(config)
    this.#pools = this.#poolsOf(models)
    this.prober = this.#proberOf(models, config)
    this.threads = Array.from({ length: count }, (_, at) => new ThreadSupervisor(this.#partsOf(at + 1, folder)))
  }

  adopt(config: Config): void {
    this.#start = { ...this.#start, config, pools: poolNames(config, this.#start.pools), configRefusedAt: null }
    const models = new ModelRegistry(config)
    this.#pools = this.#poolsOf(models)
    this.prober = this.#proberOf(models, config, this.prober.dueAt)
  }

  #proberOf(models: ModelRegistry, { via }: Config, dueAt?: Map<string, number>): FleetProbe {
    const digests = new DigestCache({ ports: this.#ports, via })
    return new FleetProbe(models.routes, this.#ports, { digests, via, ...(dueAt === undefined ? {} : { dueAt }) })
  }

  /** As `Gateway.configRefused`. Threads that start later receive it, too. */
  configRefused(at: number | null): void {
    this.#start = { ...this.#start, configRefusedAt: at }
    for (const thread of this.threads) thread.configRefused()
  }

  /** Ends answers of all threads. One that cannot be reached ends them when it renews its bookings. */
  fence(fenced: FencedEngines): void {
    void this.#askAll(this.threads, { about: 'fence', fenced })
  }

  #partsOf(number: number, folder: string): ThreadSupervisorParts {
    const { log } = this.#ports
    const lines = threadLines()
    const startNow = (): ThreadStart => ({ ...this.#start, number, folder, logLines: lines.memory })
    let cached = { of: this.#start, start: startNow() }
    return {
      // Unchanged as long as the configuration is, and what is known of a refused one.
      start: () => {
        if (cached.of !== this.#start) cached = { of: this.#start, start: startNow() }
        return cached.start
      },
      entry: ENTRY,
      newBookings: () =>
        new ThreadBookings(
          (pool) => this.#pools[pool]!.pool,
          log,
          () => this.#limits.exited(number),
        ),
      receive: (message) => this.#receive(number, message),
      lines,
      log,
    }
  }

  /** Pools by number. No route: the pool was removed, but may still have running streams. */
  #poolsOf(models: ModelRegistry): readonly { readonly pool: PoolPort; readonly route: PoolRoute | null }[] {
    return this.#start.pools.map((name) => ({ pool: this.#ports.pool(...name), route: models.route(...name) }))
  }

  #receive(from: number, message: Parameters<ThreadSupervisorParts['receive']>[0]): unknown {
    switch (message[0]) {
      case 'ttft':
        return this.#reports(message)
      case 'limit_reserve':
        return this.#limits.reserve(from, message[1])
      case 'issued_keys':
        return this.#issuedKeys(message)
      case 'limit_charge':
        return this.#limits.charge(message[1])
      case 'limit_settle':
        return this.#limits.settle(from, message[1])
      case 'response_find':
      case 'response_keep':
      case 'response_forget':
        return this.#responses.receive(from, message)
      case 'probe_soon':
        return this.#probeSoon(message[1], message[2])
      case 'ask_others':
        return this.#askAll(this.#othersThan(from), message[1])
    }
    return undefined
  }

  #issuedKeys([, method, given]: Extract<ToMain, readonly ['issued_keys', ...unknown[]]>): unknown {
    const store = this.#ports.issuedKeys
    if (store === undefined) throw new Error('there is no store of issued keys: configure `replicas`, or a file')
    return (store[method] as (given: unknown) => unknown).call(store, given)
  }

  #reports([, question, given]: Extract<ToMain, readonly ['ttft', ...unknown[]]>): unknown {
    const { ttft } = this.#ports
    return (ttft[question] as (...given: readonly unknown[]) => unknown)(...given)
  }

  #probeSoon(pool: number, engine: string): void {
    const route = this.#pools[pool]?.route ?? null
    const target = route === null ? undefined : targetOf(route.targets, engine)
    if (route !== null && target !== undefined) this.prober.probeSoon(route, target)
  }

  #othersThan(from: number): readonly ThreadSupervisor[] {
    return this.threads.filter((_, at) => at + 1 !== from)
  }

  /** Never rejects: leaves out threads that do not answer. */
  async #askAll(threads: readonly ThreadSupervisor[], query: GroupQuery): Promise<readonly unknown[]> {
    const answers = await Promise.all(
      threads.map((thread) => withTimeout(ANSWER_MS, thread.call(['group_query', query]))),
    )
    return answers.flatMap((answer) => (answer === null ? [] : [answer.value]))
  }
}
