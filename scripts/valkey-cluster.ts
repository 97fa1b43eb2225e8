/** A Valkey Cluster for tests and benches: three primaries, and a copy of one of them. */
import { setTimeout as sleep } from 'node:timers/promises'
import { administrator, ValkeyServer } from './valkey-server.ts'

const SLOTS = [0, 5_461, 10_923, 16_384] as const
/** Longest time for nodes to know of each other, ms. */
const LIMIT_MS = 45_000

const startNode = (binary: string, clusterPort: number): Promise<ValkeyServer> =>
  ValkeyServer.start(binary, [
    '--cluster-enabled',
    'yes',
    '--cluster-node-timeout',
    '2000',
    '--cluster-require-full-coverage',
    'no',
    '--cluster-port',
    String(clusterPort),
    '--repl-diskless-sync-delay',
    '0',
  ])

async function until(holds: () => Promise<boolean>): Promise<void> {
  const from = performance.now()
  while (!(await holds())) {
    if (performance.now() - from > LIMIT_MS) throw new Error(`in vain for ${LIMIT_MS / 1000} s: ${String(holds)}`)
    await sleep(5)
  }
}

/** Starts three primaries. @param port of the first node for the others: two more follow it */
export async function startCluster(binary: string, port: number): Promise<readonly ValkeyServer[]> {
  const starts = await Promise.allSettled([0, 1, 2].map((at) => startNode(binary, port + at)))
  const nodes = starts.flatMap((start) => (start.status === 'fulfilled' ? [start.value] : []))
  const failed = starts.find((start) => start.status === 'rejected')
  if (failed !== undefined) {
    await Promise.all(nodes.map((node) => node.stop()))
    throw failed.reason
  }
  const clients = await Promise.all(nodes.map(({ url }) => administrator(url)))
  for (const [at, client] of clients.entries())
    await client.sendCommand(['CLUSTER', 'ADDSLOTSRANGE', String(SLOTS[at]), String(SLOTS[at + 1]! - 1)])
  for (const at of [1, 2])
    await clients[0]!.sendCommand(['CLUSTER', 'MEET', '127.0.0.1', String(nodes[at]!.port), String(port + at)])
  await until(async () => {
    const states = await Promise.all(clients.map((client) => client.sendCommand(['CLUSTER', 'INFO'])))
    return states.every((state) =>
      /cluster_state:ok[^]*cluster_slots_ok:16384[^]*cluster_known_nodes:3/.test(String(state)),
    )
  })
  for (const client of clients) client.destroy()
  return nodes
}

interface CopyPlan {
  readonly binary: string
  readonly key: string
  /** `port` of the cluster. */
  readonly clusterPort: number
}

/** Adds a copy of the primary that has the slot of `key`, and returns both. */
export async function addCopy(
  nodes: readonly ValkeyServer[],
  { binary, key, clusterPort }: CopyPlan,
): Promise<{ readonly primary: ValkeyServer; readonly copy: ValkeyServer }> {
  const copy = await startNode(binary, clusterPort + nodes.length)
  const [first, added] = await Promise.all([administrator(nodes[0]!.url), administrator(copy.url)])
  const slot = Number(await first.sendCommand(['CLUSTER', 'KEYSLOT', key]))
  const primary = nodes[SLOTS.findLastIndex((start) => start <= slot)]!
  const owner = await administrator(primary.url)
  const id = String(await owner.sendCommand(['CLUSTER', 'MYID']))
  await added.sendCommand(['CLUSTER', 'MEET', '127.0.0.1', String(nodes[0]!.port), String(clusterPort)])
  const isKnown = async (client: typeof added) =>
    /cluster_known_nodes:4/.test(String(await client.sendCommand(['CLUSTER', 'INFO'])))
  await until(
    async () =>
      (await isKnown(added)) &&
      (await isKnown(owner)) &&
      String(await added.sendCommand(['CLUSTER', 'NODES'])).includes(id),
  )
  await added.sendCommand(['CLUSTER', 'REPLICATE', id])
  await until(() => isSynced(copy))
  for (const client of [first, added, owner]) client.destroy()
  return { primary, copy }
}

/** `master` or `slave`. Rejects if the node is away. */
export const roleOf = async (node: ValkeyServer): Promise<string> => /role:(\w+)/.exec(await replicationOf(node))![1]!

/** Whether the node is a copy that has all data of its primary. */
export const isSynced = async (node: ValkeyServer): Promise<boolean> =>
  /role:slave[^]*master_link_status:up/.test(await replicationOf(node))

async function replicationOf(node: ValkeyServer): Promise<string> {
  const client = await administrator(node.url)
  const info = String(await client.sendCommand(['INFO', 'replication']))
  client.destroy()
  return info
}
