/** LMCache as deployed: a coordinator, and a server for each of two engines. */
import type { Environment } from './environment.ts'
import type { EngineName, EngineSpec } from './engine-spec.ts'
import { freePorts, send } from './http.ts'
import type { Processes, RunningProcess } from './processes.ts'
import { openRelay } from './relay.ts'
import type { Relay } from './relay.ts'
import { until } from './until.ts'

export interface LmcacheServers {
  readonly coordinator: RunningProcess
  readonly coordinatorUrl: string
  /** Relay to which the LMCache servers report. */
  readonly reports: Relay
  /** Relay that the gateway queries. */
  readonly lookups: Relay
  engineSpec(name: EngineName): EngineSpec
  stop(): Promise<void>
}

interface Node {
  readonly instance: string
  /** Its own host: instances are matched with engines by it. */
  readonly host: string
  readonly zmqPort: number
  readonly httpPort: number
}

export const chunkTokens = 256
const lmcacheEnv = {
  LMCACHE_TRACK_USAGE: 'false',
  DO_NOT_TRACK: '1',
  NO_GPU_EXT: '1',
  LMCACHE_MP_TRANSFER_MODE: 'engine_driven',
  LMCACHE_DISABLE_BANNER: '1',
}

export async function startLmcache(
  processes: Processes,
  environment: Environment,
  note: (line: string) => void,
): Promise<LmcacheServers> {
  const [coordinatorPort, ...ports] = await freePorts(5)
  const coordinatorUrl = `http://127.0.0.1:${coordinatorPort}`
  const start = (what: string, args: readonly string[]) =>
    processes.start({
      what,
      command: [environment.bin('lmcache'), ...args],
      folder: environment.folder,
      env: lmcacheEnv,
    })
  const coordinator = start('lmcache coordinator', [
    'coordinator',
    '--host',
    '127.0.0.1',
    '--port',
    String(coordinatorPort),
    '--chunk-size',
    String(chunkTokens),
  ])
  const [reports, lookups] = [await openRelay(coordinatorUrl), await openRelay(coordinatorUrl)]
  await up(coordinator, `${coordinatorUrl}/healthz`)
  const nodes: Readonly<Record<string, Node>> = {
    left: { instance: 'node-left', host: '127.0.0.1', zmqPort: ports[0]!, httpPort: ports[1]! },
    right: { instance: 'node-right', host: '127.0.0.2', zmqPort: ports[2]!, httpPort: ports[3]! },
  }
  const servers = Object.entries(nodes).map(([name, node]) => ({
    node,
    running: start(`lmcache server ${name}`, serverArgs(node, reports.url)),
  }))
  for (const { node, running } of servers) await up(running, `http://${node.host}:${node.httpPort}/healthcheck`)
  note('LMCache is up: a coordinator and two servers')
  return {
    coordinator,
    coordinatorUrl,
    reports,
    lookups,
    engineSpec: (name) => engineSpec(nodes[name]!),
    stop: async () => {
      await Promise.all([coordinator, ...servers.map(({ running }) => running)].map((running) => running.stop()))
      reports.close()
      lookups.close()
    },
  }
}

function serverArgs({ instance, host, zmqPort, httpPort }: Node, coordinator: string): string[] {
  return [
    'server',
    '--instance-id',
    instance,
    '--host',
    host,
    '--port',
    String(zmqPort),
    '--http-host',
    host,
    '--http-port',
    String(httpPort),
    '--chunk-size',
    String(chunkTokens),
    '--l1-size-gb',
    '1',
    '--l1-init-size-gb',
    '1',
    '--eviction-policy',
    'LRU',
    '--supported-transfer-mode',
    'auto',
    '--coordinator-url',
    coordinator,
    '--coordinator-advertise-ip',
    host,
    '--coordinator-event-reporting',
  ]
}

function engineSpec({ host, zmqPort }: Node): EngineSpec {
  const extra = { 'lmcache.mp.host': `tcp://${host}`, 'lmcache.mp.port': zmqPort }
  return {
    host,
    args: [
      '--kv-transfer-config',
      JSON.stringify({ kv_connector: 'LMCacheMPConnector', kv_role: 'kv_both', kv_connector_extra_config: extra }),
    ],
    env: { LMCACHE_MP_TRANSFER_MODE: 'engine_driven' },
  }
}

async function up(server: RunningProcess, url: string): Promise<void> {
  const { origin, pathname } = new URL(url)
  await until(
    async () => {
      if (server.exitCode() !== null) throw new Error(`${server.what} ended while starting:\n${server.tail(30)}`)
      return (
        (await send({ url: origin, method: 'GET', path: pathname, limitMs: 2000 }).catch(() => null))?.status === 200
      )
    },
    `${server.what} to be up`,
    { everyMs: 500, limitMs: 180_000 },
  )
}
