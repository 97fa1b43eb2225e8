/** Replicas over a cluster of three nodes. */
import { describe, expect, it } from 'vitest'
import { addCopy, roleOf, startCluster } from '../../../scripts/valkey-cluster.ts'
import { administrator, findServer } from '../../../scripts/valkey-server.ts'
import { type Client, createClientOf, Connection } from '../../../src/platform/node/replicas/connection.ts'
import { ownPorts } from '../../own-ports.ts'
import { until } from '../../wait.ts'
import { converged, documentedRights, loaded, Member } from './member.ts'

const binary = await findServer()

describe.skipIf(binary === null)('replicas on a cluster', () => {
  it('replicas on a cluster have the same load, also after each node was killed and came back', async () => {
    const nodes = await startCluster(binary!, ownPorts(3))
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

  it('replicas on a cluster have the same load after a primary has failed over to its copy', async () => {
    const clusterPort = ownPorts(4)
    const nodes = await startCluster(binary!, clusterPort)
    const { primary, copy } = await addCopy(nodes, { binary: binary!, key: 'test:2:{one/m}:replicas', clusterPort })
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

  it('replicas on a cluster have the same load after a primary that hangs has failed over, and is back as a copy', async () => {
    const clusterPort = ownPorts(4)
    const nodes = await startCluster(binary!, clusterPort)
    const { primary, copy } = await addCopy(nodes, { binary: binary!, key: 'test:2:{one/m}:replicas', clusterPort })
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

  it('replicas on a cluster leave no connection open while a node is away', async () => {
    const nodes = await startCluster(binary!, ownPorts(3))
    let created = 0
    let isUp = false
    const create = (): Promise<Client> => {
      created++
      return createClientOf({ url: nodes[1]!.url, cluster: true, prefix: 'test', leaseMs: 2_000 })
    }
    const connection = new Connection(create, { up: () => (isUp = true), down: () => (isUp = false) })
    try {
      await until(() => isUp)
      await nodes[0]!.kill()
      connection.reset(new Error('a node is away'))
      await until(() => created > 8)
      await nodes[0]!.start()
      await until(() => isUp)
      connection.close()
      const clients = nodes.map((node) => administrator(node.url))
      // Only that of the administrator.
      await until(async () => {
        const lists = await Promise.all(clients.map(async (client) => (await client).sendCommand(['CLIENT', 'LIST'])))
        return lists.every((list) => String(list).trim().split('\n').length === 1)
      })
      for (const client of clients) (await client).destroy()
    } finally {
      connection.close()
      await Promise.all(nodes.map((node) => node.stop()))
    }
  })

  it('replicas on a cluster need no more rights than docs/replicas.md lists, with a password that a URL must encode', async () => {
    const nodes = await startCluster(binary!, ownPorts(3))
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
