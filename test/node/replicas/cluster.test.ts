/** Replicas over a cluster of three nodes. */
import { describe, expect, it } from 'vitest'
import { findServer, ValkeyServer } from '../../../scripts/valkey-server.ts'
import { ownPorts } from '../../own-ports.ts'
import { until } from '../../wait.ts'
import { administrator, converged, documentedRights, loaded, Member } from './member.ts'

const SLOTS = [0, 5_461, 10_923, 16_384] as const
const binary = await findServer()

const startNode = (clusterPort: number): Promise<ValkeyServer> =>
  ValkeyServer.start(binary!, [
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

async function startCluster(port: number): Promise<readonly ValkeyServer[]> {
  const nodes = await Promise.all([0, 1, 2].map((at) => startNode(port + at)))
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

/** Adds a copy of the primary that has the slot of `key`, and returns both. */
async function addCopy(
  nodes: readonly ValkeyServer[],
  { key, clusterPort }: { readonly key: string; readonly clusterPort: number },
): Promise<{ readonly primary: ValkeyServer; readonly copy: ValkeyServer }> {
  const copy = await startNode(clusterPort + nodes.length)
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
  await until(async () => /master_link_status:up/.test(String(await added.sendCommand(['INFO', 'replication']))))
  for (const client of [first, added, owner]) client.destroy()
  return { primary, copy }
}

const roleOf = async (node: ValkeyServer): Promise<string> => {
  const client = await administrator(node.url)
  const info = String(await client.sendCommand(['INFO', 'replication']))
  client.destroy()
  return /role:(\w+)/.exec(info)![1]!
}

describe.skipIf(binary === null)('replicas on a cluster', () => {
  it('have the same load, also after each node was killed and came back', async () => {
    const nodes = await startCluster(ownPorts(3))
    const members = nodes.map(({ url }) => new Member({ url, cluster: true, leaseMs: 2_000 }))
    try {
      await until(() => members.every(({ following }) => following === 2))
      for (const node of nodes) {
        const stop = loaded(members, 1)
        await node.kill()
        await node.start()
        await stop()
        await converged(members)
      }
      members[0]!.replicas.storedResponses.keep('resp_1', {
        tenant: 't',
        cluster: 'one',
        pool: 'm',
        engine: 'a',
        model: 'm',
      })
      await until(async () => (await members[1]!.replicas.storedResponses.find('resp_1', 't')) !== null)
      expect(members.map((member) => member.streams.length > 0)).toEqual([true, true, true])
    } finally {
      await Promise.all(members.map((member) => member.close()))
      await Promise.all(nodes.map((node) => node.stop()))
    }
  })

  it('have the same load after a primary has failed over to its copy', async () => {
    const clusterPort = ownPorts(4)
    const nodes = await startCluster(clusterPort)
    const { primary, copy } = await addCopy(nodes, { key: 'test:1:{one/m}:number', clusterPort })
    const urls = nodes.filter((node) => node !== primary).map(({ url }) => url)
    const members = [...urls, urls[0]!].map((url) => new Member({ url, cluster: true, leaseMs: 2_000 }))
    try {
      await until(() => members.every(({ following }) => following === 2))
      const stop = loaded(members, 3)
      await primary.kill()
      await until(async () => (await roleOf(copy)) === 'master', 30)
      await stop()
      await converged(members)
      for (const member of members) await member.finish()
      await converged(members)
      expect(await Promise.all(members.map((member) => member.bookings()))).toEqual([0, 0, 0])
    } finally {
      await Promise.all(members.map((member) => member.close()))
      await Promise.all([...nodes, copy].map((node) => node.stop()))
    }
  })

  it('have the same load after a primary that hangs has failed over, and is back as a copy', async () => {
    const clusterPort = ownPorts(4)
    const nodes = await startCluster(clusterPort)
    const { primary, copy } = await addCopy(nodes, { key: 'test:1:{one/m}:number', clusterPort })
    const urls = [primary, ...nodes.filter((node) => node !== primary)].map(({ url }) => url)
    const members = urls.map((url) => new Member({ url, cluster: true, leaseMs: 2_000 }))
    try {
      await until(() => members.every(({ following }) => following === 2))
      const stop = loaded(members, 4)
      primary.signal('SIGSTOP')
      await until(async () => (await roleOf(copy)) === 'master', 30)
      primary.signal('SIGCONT')
      // Until it learns of the failover it is a second primary.
      await until(async () => (await roleOf(primary)) === 'slave', 30)
      await stop()
      await converged(members)
    } finally {
      primary.signal('SIGCONT')
      await Promise.all(members.map((member) => member.close()))
      await Promise.all([...nodes, copy].map((node) => node.stop()))
    }
  })

  it('need no more rights than docs/replicas.md lists, with a password that a URL must encode', async () => {
    const nodes = await startCluster(ownPorts(3))
    const clients = await Promise.all(nodes.map(({ url }) => administrator(url)))
    const rights = [...documentedRights('p@ss'), '+cluster|slots']
    for (const client of clients) {
      await client.sendCommand(['ACL', 'SETUSER', 'firstlight', ...rights])
      await client.sendCommand(['ACL', 'SETUSER', 'default', 'resetpass', '>other'])
    }
    const [first, second] = nodes.map(({ url }) => url.replace('//', '//firstlight:p%40ss@')) as [string, string]
    const members = [first, second].map((url) => new Member({ url, cluster: true, prefix: 'firstlight' }))
    try {
      await until(() => members.every(({ following }) => following === 1))
      const stop = loaded(members, 5)
      for (const client of clients) await client.sendCommand(['CLIENT', 'KILL', 'USER', 'firstlight'])
      await stop()
      await converged(members)
      expect(members.flatMap((member) => member.logged('replicas_rejected'))).toEqual([])
    } finally {
      for (const client of clients) client.destroy()
      await Promise.all(members.map((member) => member.close()))
      await Promise.all(nodes.map((node) => node.stop()))
    }
  })
})
