/** The product's outside, made of one Worker's bindings. */
import type { ClusterObject } from '../../../durable/cluster.ts'
import type { TtftObject } from '../../../durable/ttft.ts'
import type { Config, LogConfig } from '../../config.ts'
import { toPoolConfig, toStoreLimits } from '../../config/normalize.ts'
import type { Log, Ports } from '../../ports.ts'
import { durableClusters, type PoolPlace } from './clusters.ts'
import { workersOrigin } from './origin.ts'
import { durableTtft } from './ttft.ts'

/* Structured lines for Workers Logs: one JSON object each, errors with their causes. */

const LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

type Write = (line: string) => void

/** `level` is asked for at every line, since the configuration comes after the log. */
export function workersLog(
  level: () => LogConfig['level'],
  write: Readonly<Record<'debug' | 'info' | 'warn' | 'error', Write>> = console,
): Log {
  const writes = (name: 'debug' | 'info' | 'warn' | 'error') => LEVELS.indexOf(name) >= LEVELS.indexOf(level())
  const at =
    (name: 'debug' | 'info' | 'warn' | 'error') =>
    (event: string, fields: Readonly<Record<string, unknown>> = {}) => {
      if (!writes(name)) return
      write[name](
        JSON.stringify({ level: name, event, ...fields }, (_, value: unknown) =>
          value instanceof Error ? plain(value) : value,
        ),
      )
    }
  return { writes, debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}

function plain(error: Error): unknown {
  return { name: error.name, message: error.message, ...(error.cause === undefined ? {} : { cause: error.cause }) }
}

/** A collector that answers later than this is out of reach. */
const POST_MS = 10_000

export interface PortsEnv {
  readonly CLUSTER: DurableObjectNamespace<ClusterObject>
  /** Absent on deployments older than the reports. */
  readonly TTFT?: DurableObjectNamespace<TtftObject>
}

/** Nothing in it belongs to one request, so it serves the whole isolate. */
export function workersPorts(config: Config, env: PortsEnv, log: Log): Ports {
  const places = placesOf(config)
  return {
    cluster: durableClusters(env.CLUSTER, { source: (clusterId, pool) => places.get(nameOf(clusterId, pool)) ?? null }),
    origin: workersOrigin({ bindings: { ...env } }),
    now: () => Date.now(),
    random: () => Math.random(),
    newId: () => crypto.randomUUID(),
    log,
    ...(config.ttft.enabled ? ttftOf(config, env, log) : {}),
    async post(url, headers, body) {
      const answer = await fetch(url, {
        method: 'POST',
        headers: { ...headers },
        body,
        signal: AbortSignal.timeout(POST_MS),
      })
      await answer.body?.cancel()
      return answer.status
    },
  }
}

function ttftOf(config: Config, { TTFT }: PortsEnv, log: Log): Pick<Ports, 'ttft'> {
  if (TTFT !== undefined) return { ttft: durableTtft(TTFT, toStoreLimits(config.ttft)) }
  log.error('ttft_unbound', { missing: 'TTFT', see: 'the durable object TtftObject in wrangler.toml' })
  return {}
}

function placesOf(config: Config): ReadonlyMap<string, PoolPlace> {
  const places = new Map<string, PoolPlace>()
  for (const cluster of config.clusters) {
    const { generation, locationHint } = cluster
    for (const pool of cluster.pools) {
      places.set(nameOf(cluster.id, pool.model), {
        version: config.version,
        pool: toPoolConfig(cluster, pool),
        isRegional: cluster.gateway !== null,
        generation,
        locationHint,
      })
    }
  }
  return places
}

const nameOf = (clusterId: string, pool: string): string => JSON.stringify([clusterId, pool])
