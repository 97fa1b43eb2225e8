/** What replicas share: one Valkey server, or a cluster with a copy of the primary that has the bookings. */
import { setTimeout as sleep } from 'node:timers/promises'
import { addCopy, isSynced, roleOf, startCluster } from '../../../scripts/valkey-cluster.ts'
import { administrator, findServer, ValkeyServer } from '../../../scripts/valkey-server.ts'
import { ownPorts } from '../../../test/own-ports.ts'
import { until } from '../conformance/until.ts'

/** The server, or the nodes of a cluster. */
export interface ValkeyDeployment {
  /** `url` and `cluster` of the configuration. */
  readonly config: object
  /** Ways in which it is disturbed, in this order. */
  readonly kinds: readonly string[]
  disturb(kind: string, random: () => number): Promise<void>
  /** Open bookings of each replica in each node. */
  holdings(): Promise<readonly string[]>
  stop(): Promise<void>
}

const FROZEN_MS = 2_000

async function binary(): Promise<string> {
  const found = await findServer()
  if (found === null) throw new Error('Replicas need a Valkey or Redis server.')
  return found
}

/** Commands to each of these nodes. */
const COMMANDS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'connections cut': [
    ['CLIENT', 'KILL', 'TYPE', 'pubsub'],
    ['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'],
  ],
  'keys lost': [['FLUSHALL']],
  'scripts flushed': [['SCRIPT', 'FLUSH']],
}

async function command(kind: string, nodes: readonly ValkeyServer[]): Promise<void> {
  for (const { url } of nodes) {
    const client = await administrator(url)
    for (const words of COMMANDS[kind]!) await client.sendCommand(words)
    client.destroy()
  }
}

async function holdingsOf(node: ValkeyServer): Promise<readonly string[]> {
  const client = await administrator(node.url)
  const fields = async (key: string) => {
    const all = (await client.sendCommand(['HGETALL', key])) as unknown as readonly string[]
    const at = all.indexOf('#')
    return `${node.url} ${key}: number ${all[at + 1]}, fields ${all.filter((_, i) => i % 2 === 0).join(' ')}`
  }
  try {
    if ((await roleOf(node)) === 'slave') await client.sendCommand(['READONLY'])
    const keys = (await client.sendCommand(['KEYS', '*:open:*'])) as unknown as readonly string[]
    return await Promise.all(keys.map(fields))
  } finally {
    client.destroy()
  }
}

export class OneServer implements ValkeyDeployment {
  readonly kinds = ['server killed', 'server frozen', ...Object.keys(COMMANDS)]
  readonly config: object
  readonly #server: ValkeyServer

  static async start(): Promise<OneServer> {
    return new OneServer(await ValkeyServer.start(await binary()))
  }

  private constructor(server: ValkeyServer) {
    this.#server = server
    this.config = { url: server.url }
  }

  async disturb(kind: string, random: () => number): Promise<void> {
    if (kind === 'server killed') {
      await this.#server.kill()
      await sleep(random() * 2_000)
      return this.#server.start()
    }
    if (kind !== 'server frozen') return command(kind, [this.#server])
    this.#server.signal('SIGSTOP')
    await sleep(FROZEN_MS)
    this.#server.signal('SIGCONT')
  }

  holdings(): Promise<readonly string[]> {
    return holdingsOf(this.#server)
  }

  stop(): Promise<void> {
    return this.#server.stop()
  }
}

export class ServerCluster implements ValkeyDeployment {
  readonly kinds = ['primary killed', 'primary frozen', 'primary failed over', ...Object.keys(COMMANDS)]
  readonly config: object
  readonly #nodes: readonly ValkeyServer[]
  #primary: ValkeyServer
  #copy: ValkeyServer

  /** @param pool whose bookings the primary with the copy has */
  static async start(pool: string): Promise<ServerCluster> {
    const [program, clusterPort] = [await binary(), ownPorts(4)]
    const nodes = await startCluster(program, clusterPort)
    return new ServerCluster(nodes, await addCopy(nodes, { binary: program, key: `{${pool}}`, clusterPort }))
  }

  private constructor(nodes: readonly ValkeyServer[], pair: { primary: ValkeyServer; copy: ValkeyServer }) {
    this.#nodes = [...nodes, pair.copy]
    this.#primary = pair.primary
    this.#copy = pair.copy
    // A node that is never away.
    this.config = { url: nodes.find((node) => node !== pair.primary)!.url, cluster: true }
  }

  async disturb(kind: string): Promise<void> {
    if (!kind.startsWith('primary')) return command(kind, kind === 'keys lost' ? this.#primaries : this.#nodes)
    if (kind === 'primary killed') await this.#primary.kill()
    else if (kind === 'primary frozen') this.#primary.signal('SIGSTOP')
    else await this.#failOver()
    await until(async () => (await roleOf(this.#copy)) === 'master', 'the copy to be the primary')
    const old = this.#primary
    this.#primary = this.#copy
    this.#copy = old
    if (kind === 'primary killed') await this.#copy.start()
    else if (kind === 'primary frozen') this.#copy.signal('SIGCONT')
    await until(() => isSynced(this.#copy), 'the old primary to be a copy')
  }

  async holdings(): Promise<readonly string[]> {
    return (await Promise.all(this.#nodes.map(holdingsOf))).flat()
  }

  async stop(): Promise<void> {
    await Promise.all(this.#nodes.map((node) => node.stop()))
  }

  async #failOver(): Promise<void> {
    const client = await administrator(this.#copy.url)
    await client.sendCommand(['CLUSTER', 'FAILOVER'])
    client.destroy()
  }

  /** Copies are read-only. */
  get #primaries(): readonly ValkeyServer[] {
    return this.#nodes.filter((node) => node !== this.#copy)
  }
}
