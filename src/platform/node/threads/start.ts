/** A gateway on several threads: I/O threads carry the requests, this thread has the pool state. See docs/scale.md. */
import type { LimitAnswer, Reservation, Settlement } from '../../../core/limits/key-limiter.ts'
import { memoryLimiter } from '../../../gateway.ts'
import { ModelRegistry } from '../../../api/model-registry.ts'
import type { Config } from '../../../config.ts'
import { DigestCache } from '../../../origin/digest-cache.ts'
import { FleetProbe } from '../../../origin/probe.ts'
import type { PoolRoute } from '../../../origin/exchange.ts'
import type { Cluster, Log, StoredResponse, Limiter, StoredResponses } from '../../../ports.ts'
import { configurePools } from '../reload.ts'
import { nodePorts, type NodePorts, type RuntimeHooks } from '../ports.ts'
import { probeForever } from '../serve.ts'
import { statsForever, type RunningGateway } from '../start-gateway.ts'
import { vocabulariesIn } from '../vocabulary.ts'
import { ThreadClusterHost } from './cluster-host.ts'
import { WorkerSupervisor, type ThreadParts } from './worker-supervisor.ts'
import { poolNames } from './ports.ts'
import type { ThreadStart } from './thread.ts'
import { withTimeout } from '../../../timeout.ts'
import type { ToMain, ToThread } from './rpc.ts'
import { availableParallelism } from 'node:os'
import { UsageError } from '../usage-error.ts'
import { createServer, type AddressInfo } from 'node:net'

/* Directory of stored responses for all I/O threads. Lives in the main thread. */

/** An I/O thread as the main thread calls it. */
export interface AskedThread {
  call(message: ToThread): Promise<unknown>
}

type Message = Extract<ToMain, readonly [`response_${string}`, ...unknown[]]>

export class StoredResponseHost {
  readonly #storedResponses: StoredResponses
  readonly #othersThan: (thread: number) => readonly AskedThread[]
  readonly #limitMs: number

  /** @param limitMs how long a lookup that finds nothing waits for a thread that does not answer. */
  constructor(
    storedResponses: StoredResponses,
    othersThan: (thread: number) => readonly AskedThread[],
    limitMs: number,
  ) {
    this.#storedResponses = storedResponses
    this.#othersThan = othersThan
    this.#limitMs = limitMs
  }

  /** Handles a message of the thread with number `from`. */
  receive(from: number, message: Message): unknown {
    switch (message[0]) {
      case 'response_find':
        return this.#find(from, message[1], message[2])
      case 'response_keep':
        return this.#storedResponses.keep(message[1], message[2])
      case 'response_forget':
        return this.#storedResponses.forget(message[1])
    }
  }

  /**
   * A thread posts `response_keep` before a client can read the id, but this thread may receive messages of two threads
   * in another order than they were posted. Messages of one thread stay in order, so what a thread posted has arrived
   * when that thread has answered a question.
   */
  async #find(from: number, id: string, tenant: string): Promise<StoredResponse | null> {
    const found = await this.#storedResponses.find(id, tenant)
    if (found !== null) return found
    await Promise.all(this.#othersThan(from).map((thread) => withTimeout(this.#limitMs, thread.call(['sync']))))
    return this.#storedResponses.find(id, tenant)
  }
}

/** Limits per key for the threads. Reservations of a thread that has exited end with it. */
export class LimitHost {
  readonly #limiter: Limiter
  /** Thread → request id → key. */
  readonly #open = new Map<number, Map<string, string>>()

  constructor(limiter: Limiter) {
    this.#limiter = limiter
  }

  async reserve(from: number, reservation: Reservation): Promise<LimitAnswer> {
    const answer = await this.#limiter.reserve(reservation)
    if (answer.exceeded === null) this.#openOf(from).set(reservation.id, reservation.key)
    return answer
  }

  settle(from: number, settlement: Settlement): Promise<void> | void {
    this.#openOf(from).delete(settlement.id)
    return this.#limiter.settle(settlement)
  }

  /** Ends the reservations of a thread; their tokens stay at the estimate. */
  exited(thread: number): void {
    for (const [id, key] of this.#openOf(thread)) void this.#limiter.settle({ key, id, tokens: null })
    this.#open.delete(thread)
  }

  #openOf(thread: number): Map<string, string> {
    const known = this.#open.get(thread) ?? new Map<string, string>()
    this.#open.set(thread, known)
    return known
  }
}

/**
 * Checks that nobody listens on the address, and returns it with a port. Rejects with the system's error if it is in
 * use. Otherwise the port would be shared with another gateway, and each would receive half of the requests.
 */
export function freeAddress({
  host,
  port,
}: {
  readonly host: string
  readonly port: number
}): Promise<{ readonly host: string; readonly port: number }> {
  const server = createServer()
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port }, () => {
      const bound = (server.address() as AddressInfo).port
      server.close(() => resolve({ host, port: bound }))
    })
  })
}

export interface Machine {
  /** As `process.platform`. */
  readonly platform: string
  /** Node's, as `process.versions.node`. */
  readonly version: string
  readonly cores: number
}

/** This host. */
const here = (): Machine => ({
  platform: process.platform,
  version: process.versions.node,
  cores: availableParallelism(),
})

/**
 * Computes the number of I/O threads; 1: this thread does everything. `auto` leaves one core for the pool state, and
 * is 1 where threads cannot share a port. Throws a UsageError for a larger explicit number there.
 */
export function threadCount(wanted: Config['workers'], { platform, version, cores }: Machine = here()): number {
  const can = canSharePorts(platform, version)
  if (wanted === 'auto') return can ? Math.max(1, cores - 1) : 1
  if (wanted === 1 || can) return wanted
  throw new UsageError(
    `${wanted} workers need to listen on one port, which Node ${version} cannot do on ${platform}.`,
    'Use Linux and Node 22.12 or newer; or --workers 1, and several processes behind a proxy.',
  )
}

/**
 * Node passes SO_REUSEPORT on from 22.12 and 23.1. On other systems it does not exist, or does not distribute
 * connections.
 */
function canSharePorts(platform: string, version: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const isNew = major >= 24 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12)
  return isNew && ['linux', 'freebsd', 'dragonfly', 'sunos', 'aix'].includes(platform)
}

export interface ThreadsOptions {
  /** I/O threads: 2 or more. */
  readonly count: number
  /** Folder of relative vocabulary names. */
  readonly folder?: string
  readonly standing?: RuntimeHooks
}

export interface RunningThreads extends RunningGateway {
  /** Ends a thread like a fault, by its number from 1. For tests. */
  kill(thread: number): Promise<void>
}

/** The bundle is one file that detects whether it runs as a thread. */
const ENTRY = new URL(import.meta.url.endsWith('.ts') ? './entry.ts' : import.meta.url, import.meta.url)
/** Threads that answer later are left out. */
const SIBLING_TIMEOUT_MS = 1_000
/**
 * Time that a lookup of a stored response waits for a thread. A 404 would be wrong, and a thread that exited rejects
 * at once.
 */
const LOOKUP_MS = 10_000
/** Time beyond the limits for requests and their releases. */
const STOP_SLACK_MS = 10_000

/** Starts the threads. Rejects like `startGateway`. `threadCount` must have checked that threads can share a port. */
export async function startThreads(
  config: Config,
  log: Log,
  { count, folder = '.', standing }: ThreadsOptions,
): Promise<RunningThreads> {
  // Vocabularies are checked here, where errors have their original type. Each thread opens its own.
  const fit = vocabulariesIn(folder, () => true)
  await fit(config)
  const settled = await withFreeAddresses(config)
  const ports = nodePorts(settled, log, standing)
  const hub = new PoolOwner(settled, ports, count)
  const threads = Array.from({ length: count }, (_, at) => new WorkerSupervisor(hub.partsOf(at + 1, folder)))
  hub.threads = threads
  const stopProbing = probeForever({ probe: () => hub.prober.round() }, log)
  const stats = statsForever(settled, ports)
  let { drainMs } = config.limits
  const adopt = async (next: Config, sameFiles = false) => {
    await fit(next, sameFiles)
    const taken = { ...next, listen: settled.listen, ttft: { ...next.ttft, listen: settled.ttft.listen } }
    ports.adopt(taken)
    hub.adopt(taken)
    await configurePools(taken, ports)
    stats.adopt(taken)
    await Promise.all(threads.map((thread) => thread.adopt(sameFiles)))
    drainMs = next.limits.drainMs
  }
  const stop = async (now: AbortSignal) => {
    stopProbing()
    now.addEventListener('abort', () => threads.forEach((thread) => thread.forceStop()), { once: true })
    const ending = threads.map((thread) => thread.stop(drainMs + STOP_SLACK_MS))
    if (now.aborted) threads.forEach((thread) => thread.forceStop())
    const ends = await Promise.all(ending)
    stats.stop()
    ports.close()
    return { cut: ends.some(({ cut }) => cut) }
  }
  try {
    const [first] = await Promise.all(threads.map((thread) => thread.start()))
    if (first!.reports !== null) log.info('report_listener_ready', { address: first!.reports })
    return {
      ...first!,
      adopt,
      configRefused: (at) => hub.configRefused(at),
      stop,
      kill: async (thread) => threads[thread - 1]?.kill(),
    }
  } catch (error) {
    await stop(AbortSignal.abort())
    throw error
  }
}

/** All threads must open the same port, so it is chosen first. */
async function withFreeAddresses(config: Config): Promise<Config> {
  const { ttft } = config
  const listen = await freeAddress(config.listen)
  return {
    ...config,
    listen,
    ttft: !ttft.enabled || ttft.listen === null ? ttft : { ...ttft, listen: await freeAddress(ttft.listen) },
  }
}

/** State that exists once, whatever the number of threads. */
class PoolOwner {
  threads: readonly WorkerSupervisor[] = []
  prober: FleetProbe
  #start: Omit<ThreadStart, 'number' | 'folder'>
  readonly #ports: NodePorts & Required<Pick<NodePorts, 'ttft'>>
  #pools: readonly { readonly cluster: Cluster; readonly route: PoolRoute | null }[]
  readonly #responses: StoredResponseHost
  readonly #limits: LimitHost

  constructor(config: Config, ports: NodePorts, count: number) {
    this.#ports = ports as NodePorts & Required<Pick<NodePorts, 'ttft'>>
    this.#limits = new LimitHost(ports.limiter ?? memoryLimiter(() => ports.now()))
    this.#responses = new StoredResponseHost(ports.storedResponses, (from) => this.#othersThan(from), LOOKUP_MS)
    this.#start = {
      firstlight: 'thread',
      config,
      pools: poolNames(config),
      bodyKib: new SharedArrayBuffer(count * Int32Array.BYTES_PER_ELEMENT),
      startedAt: Date.now(),
      configRefusedAt: null,
    }
    const catalog = new ModelRegistry(config)
    this.#pools = this.#poolsOf(catalog)
    this.prober = new FleetProbe(catalog.routes, ports, { digests: new DigestCache({ ports, via: config.via }) })
  }

  adopt(config: Config): void {
    this.#start = { ...this.#start, config, pools: poolNames(config, this.#start.pools), configRefusedAt: null }
    const catalog = new ModelRegistry(config)
    this.#pools = this.#poolsOf(catalog)
    this.prober = new FleetProbe(catalog.routes, this.#ports, {
      digests: new DigestCache({ ports: this.#ports, via: config.via }),
      dueAt: this.prober.dueAt,
    })
  }

  /** As `Gateway.configRefused`. Threads that start later receive it, too. */
  configRefused(at: number | null): void {
    this.#start = { ...this.#start, configRefusedAt: at }
    for (const thread of this.threads) thread.configRefused()
  }

  partsOf(number: number, folder: string): ThreadParts {
    const { log } = this.#ports
    let told = { of: this.#start, start: { ...this.#start, number, folder } }
    return {
      // Unchanged as long as the configuration is, and what is known of a refused one.
      start: () => {
        if (told.of !== this.#start) told = { of: this.#start, start: { ...this.#start, number, folder } }
        return told.start
      },
      entry: ENTRY,
      poolHost: () =>
        new ThreadClusterHost(
          (pool) => this.#pools[pool]!.cluster,
          log,
          () => this.#limits.exited(number),
        ),
      receive: (message) => this.#receive(number, message),
      log,
    }
  }

  /** Pools by number. No route: the pool was removed, but may still have running streams. */
  #poolsOf(catalog: ModelRegistry): readonly { readonly cluster: Cluster; readonly route: PoolRoute | null }[] {
    return this.#start.pools.map((name) => ({ cluster: this.#ports.cluster(...name), route: catalog.route(...name) }))
  }

  #receive(from: number, message: Parameters<ThreadParts['receive']>[0]): unknown {
    switch (message[0]) {
      case 'ttft':
        return this.#reports(message)
      case 'limit_reserve':
        return this.#limits.reserve(from, message[1])
      case 'limit_settle':
        return this.#limits.settle(from, message[1])
      case 'response_find':
      case 'response_keep':
      case 'response_forget':
        return this.#responses.receive(from, message)
      case 'suspect':
        return this.#suspect(message[1], message[2])
      case 'siblings':
        return this.#askOthers(from, message[1])
    }
    return undefined
  }

  #reports([, question, given]: Extract<ToMain, readonly ['ttft', ...unknown[]]>): unknown {
    const { ttft } = this.#ports
    return (ttft[question] as (...given: readonly unknown[]) => unknown)(...given)
  }

  #suspect(pool: number, engine: string): void {
    const route = this.#pools[pool]?.route ?? null
    const target = route?.targets.get(engine)
    if (route !== null && target !== undefined) this.prober.suspect(route, target)
  }

  #othersThan(from: number): readonly WorkerSupervisor[] {
    return this.threads.filter((_, at) => at + 1 !== from)
  }

  async #askOthers(
    from: number,
    question: Extract<ToMain, readonly ['siblings', unknown]>[1],
  ): Promise<readonly unknown[]> {
    const answers = await Promise.all(
      this.#othersThan(from).map((thread) => withTimeout(SIBLING_TIMEOUT_MS, thread.call(['sibling', question]))),
    )
    return answers.flatMap((answer) => (answer === null ? [] : [answer.value]))
  }
}
