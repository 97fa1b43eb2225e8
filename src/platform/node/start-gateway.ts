/** From a configuration to a gateway that listens. */
import type { WorkerGroup } from '../../api/worker-group.ts'
import type { Config } from '../../config.ts'
import { createGateway, type Gateway, type CarriedState } from '../../gateway.ts'
import type { Log, Ports, AssetFiles } from '../../ports.ts'
import type { OpenVocabulary } from '../../vocabulary.ts'
import { ReloadableGateway, configurePools } from './reload.ts'
import type { Drained } from './drain.ts'
import { nodePorts, type RuntimeHooks } from './ports.ts'
import { listen, type ListenOptions } from './serve.ts'
import { vocabulariesIn, warmUp } from './vocabulary.ts'
import { readFile } from 'node:fs/promises'
import { createAdaptorServer, type HttpBindings } from '@hono/node-server'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { splitUrl } from '../../api/request-context.ts'
import { addressText } from '../../config/fields.ts'
import { connectionsFor, descriptorLimit } from './inbound/connection-guard.ts'
import { collecting, NodeBody } from './inbound/node-body.ts'
import type { ClusterDigest, EngineDigest } from '../../core/contract/contract.ts'

/* The listener of `ttft.listen`: plain HTTP for reporters beside the engines, which use neither TLS nor keys. */

export interface ReportListener {
  /** `host:port`. */
  readonly address: string
  close(): Promise<void>
}

const headMs = 5_000
const idleMs = 75_000

/** Serves `/ttft_report` only. Rejects with the system's error if the port cannot be opened. */
export async function listenForReports(
  gateway: Pick<Gateway, 'fetch'>,
  { host, port, reusePort = false }: Pick<ListenOptions, 'host' | 'port' | 'reusePort'>,
): Promise<ReportListener> {
  const server = createAdaptorServer({
    fetch: (request: Request, env: unknown) => {
      const { incoming } = env as HttpBindings
      // The path that the gateway receives: the adapter has resolved `..`.
      if (!/^\/ttft_report(?:\/|$)/.test(splitUrl(request.url).path))
        return new Response('{"detail":"not found"}', { status: 404, headers: { 'content-type': 'application/json' } })
      return gateway.fetch(collecting(request, new NodeBody(incoming)), {
        background: (work) => void work.catch(() => {}),
        client: env,
        remoteAddress: incoming.socket.remoteAddress ?? null,
        isReportListener: true,
      })
    },
    serverOptions: { headersTimeout: headMs, requestTimeout: headMs, keepAliveTimeout: idleMs, maxHeaderSize: 16_384 },
  }) as Server
  // Reporters disconnect in the middle of a response, too.
  server.on('clientError', (_error, socket) => socket.destroy())
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen({ host, port, reusePort }, () => {
      server.off('error', reject)
      resolve()
    })
  })
  const { port: bound } = server.address() as AddressInfo
  return {
    address: addressText({ host, port: bound }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/* Files of the dashboard pages, from the disk. */

/** In an installed package, beside the bundle; in a checkout, where the build writes them. */
const FOLDER = new URL(import.meta.url.endsWith('.ts') ? '../../../dist/dashboard/' : './dashboard/', import.meta.url)

const PLAIN_NAME = /^[\w-]+\.\w+$/

/** Reads a file for each request: there are few, and a new build takes effect at once. */
export function diskAssets(folder: URL = FOLDER): AssetFiles {
  return async (name) => {
    if (!PLAIN_NAME.test(name)) return null
    try {
      return await readFile(new URL(name, folder))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
      throw error
    }
  }
}

export interface RunningGateway {
  readonly url: string
  /** `host:port` of `ttft.listen`; null: not configured. */
  readonly reports: string | null
  /**
   * Applies a new configuration within the limits of `reloadable`. Resolves when new requests use it; rejects with a
   * VocabularyError, without effect.
   * @param sameFiles keep open vocabularies without reading their files again
   */
  adopt(config: Config, sameFiles?: boolean): Promise<void>
  /** As `Gateway.configRefused`. */
  configRefused(at: number | null): void
  /** Shuts down; `now` ends the waiting. */
  stop(now: AbortSignal): Promise<Drained>
}

/**
 * Starts a gateway on one thread. `folder`: folder of relative vocabulary names. Rejects with a VocabularyError, or
 * with the system's error if the port cannot be opened.
 */
export async function startGateway(
  config: Config,
  log: Log,
  folder = '.',
  standing?: RuntimeHooks,
): Promise<RunningGateway> {
  const vocabulariesOf = vocabulariesIn(folder, (opened) => opened)
  const vocabularies = await vocabulariesOf(config)
  const ports = nodePorts(config, log, standing)
  try {
    const open = await openGateway(config, ports, { vocabularies })
    if (open.reports !== null) log.info('report_listener_ready', { address: open.reports })
    const stats = statsForever(config, ports)
    return {
      url: open.url,
      reports: open.reports,
      async adopt(next, sameFiles) {
        const opened = await vocabulariesOf(next, sameFiles)
        ports.adopt(next)
        open.change(next, opened)
        await configurePools(next, ports)
        stats.adopt(next)
      },
      configRefused: (at) => open.configRefused(at),
      async stop(now) {
        const drained = await open.stop(now)
        stats.stop()
        ports.close()
        return drained
      },
    }
  } catch (error) {
    ports.close()
    throw error
  }
}

export interface OpenOptions {
  readonly vocabularies: ReadonlyMap<string, OpenVocabulary>
  /** Other threads that listen on the same port. */
  readonly shared?: WorkerGroup
  /** Number of threads of this process that listen; absent: one. */
  readonly threads?: number
}

export interface OpenGateway extends Omit<RunningGateway, 'adopt'>, Pick<Gateway, 'answer'> {
  change(config: Config, vocabularies: OpenOptions['vocabularies']): void
}

/** Creates a gateway for a configuration and its open vocabularies, with the state of its predecessor. */
const gatewayMaker =
  (ports: Ports, shared: WorkerGroup | undefined) =>
  (config: Config, known: OpenOptions['vocabularies'], kept?: CarriedState): Gateway =>
    createGateway(config, ports, {
      assets: diskAssets(),
      vocabularyOf: ({ tokenizer }) => (tokenizer === null ? null : (known.get(tokenizer) ?? null)),
      ...(shared === undefined ? {} : { shared }),
      ...(kept === undefined ? {} : { kept }),
    })

/** Opens a gateway with its listeners. The caller opens and closes `ports`. */
export async function openGateway(
  config: Config,
  ports: Ports,
  { vocabularies, shared, threads = 1 }: OpenOptions,
): Promise<OpenGateway> {
  const { log } = ports
  warmUp(vocabularies.values())
  const made = gatewayMaker(ports, shared)
  const gateway = new ReloadableGateway(made(config, vocabularies))
  const reusePort = shared !== undefined
  let { limits } = config
  const mostConnections = connectionsFor(descriptorLimit(), threads)
  const listening = await listen(gateway, {
    ...config.listen,
    reusePort,
    // Read at shutdown: a reload may have changed it.
    get drainMs() {
      return limits.drainMs
    },
    get connectionLimits() {
      const { connections, writeMs } = limits
      return { connections: connections === null ? mostConnections : Math.ceil(connections / threads), writeMs }
    },
    log,
  })
  const reports = await openReports(gateway, config, reusePort).catch(async (error: unknown) => {
    await listening.stop(AbortSignal.abort())
    throw error
  })
  return {
    url: listening.url,
    reports: reports?.address ?? null,
    answer: (question) => gateway.answer(question),
    configRefused: (at) => gateway.configRefused(at),
    change(next, opened) {
      gateway.kept.telemetry.export(next.traces)
      gateway.change(made(next, opened, gateway.kept))
      limits = next.limits
    },
    async stop(now) {
      const drained = await listening.stop(now)
      await reports?.close()
      return drained
    },
  }
}

async function openReports(
  gateway: Pick<Gateway, 'fetch'>,
  { ttft: { enabled, listen: at } }: Config,
  reusePort: boolean,
): Promise<ReportListener | null> {
  return enabled && at !== null ? listenForReports(gateway, { ...at, reusePort }) : null
}

/**
 * Logs statistics every `log.stats_interval_s`. A configuration with the same interval does not delay the next line.
 */
export function statsForever(config: Config, ports: Ports): { adopt(next: Config): void; stop(): void } {
  const stats = new StatsLines(ports)
  let everyMs = 0
  let timer: NodeJS.Timeout | undefined
  const adopt = ({ log, clusters }: Config): void => {
    stats.pools = clusters.flatMap(({ id, pools }) => pools.map(({ model }) => ({ cluster: id, pool: model })))
    if (log.statsIntervalS * 1000 === everyMs) return
    everyMs = log.statsIntervalS * 1000
    clearInterval(timer)
    if (everyMs > 0) timer = setInterval(() => void stats.write(), everyMs).unref()
  }
  adopt(config)
  return { adopt, stop: () => clearInterval(timer) }
}

/* Logs one line per engine at an interval. */

interface Pool {
  readonly cluster: string
  readonly pool: string
}

interface Count {
  readonly at: number
  readonly total: number
}

/** Stores the last counts, from which it computes rates. */
export class StatsLines {
  pools: readonly Pool[] = []
  readonly #ports: Pick<Ports, 'cluster' | 'now'> & { readonly log: Log }
  /** Counts at the last line of each engine. */
  #last = new Map<string, Count>()
  #before: ReadonlyMap<string, Count> = new Map()

  constructor(ports: Pick<Ports, 'cluster' | 'now' | 'log'>) {
    this.#ports = ports
  }

  /** Writes the lines now. Never rejects: a pool without an answer is logged. */
  async write(): Promise<void> {
    this.#before = this.#last
    this.#last = new Map()
    await Promise.all(this.pools.map((pool) => this.#pool(pool)))
  }

  async #pool({ cluster, pool }: Pool): Promise<void> {
    try {
      this.#engines(await this.#ports.cluster(cluster, pool).digest())
    } catch (error) {
      this.#ports.log.warn('engine_stats_missing', { cluster, model: pool, error })
    }
  }

  #engines({ cluster, pool, engines }: ClusterDigest): void {
    for (const engine of engines) {
      this.#ports.log.info('engine_stats', {
        cluster,
        model: pool,
        engine: engine.id,
        qps: this.#qps(`${cluster} ${pool} ${engine.id}`, engine),
        ...fieldsOf(engine),
      })
    }
  }

  /** Rate since the last line; null: first line. A decrease is a reset. */
  #qps(key: string, { requestsTotal }: EngineDigest): number | null {
    const at = this.#ports.now()
    const last = this.#before.get(key)
    this.#last.set(key, { at, total: requestsTotal })
    if (last === undefined || at <= last.at || requestsTotal < last.total) return null
    return rounded((requestsTotal - last.total) / ((at - last.at) / 1000))
  }
}

function fieldsOf(engine: EngineDigest): Record<string, unknown> {
  return {
    running: engine.requests,
    active_blocks: engine.activeBlocks,
    queued_prefill_s: rounded(engine.queuedPrefillS),
    hit_rate: rounded(engine.hitRate ?? null),
    ttft_ms: rounded(engine.ttftMs),
    ttft_error: rounded(engine.learned?.ttftError ?? null),
    available: engine.available,
    circuit: engine.circuit,
  }
}

const rounded = (value: number | null): number | null => (value === null ? null : Math.round(value * 1000) / 1000)
