/** Replicas over a cluster of three nodes. */
import { describe, expect, it } from 'vitest'
import { findServer, ValkeyServer } from '../../../scripts/valkey-server.ts'
import { ownPorts } from '../../own-ports.ts'
import { until } from '../../wait.ts'
import { administrator, converged, loaded, Member } from './member.ts'

const SLOTS = [0, 5_461, 10_923, 16_384] as const
const binary = await findServer()

async function startCluster(): Promise<readonly ValkeyServer[]> {
  const port = ownPorts(3)
  const nodes = await Promise.all(
    [0, 1, 2].map((at) =>
      ValkeyServer.start(binary!, [
        '--cluster-enabled',
        'yes',
        '--cluster-node-timeout',
        '2000',
        '--cluster-require-full-coverage',
        'no',
        '--cluster-port',
        String(port + at),
      ]),
    ),
  )
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

describe.skipIf(binary === null)('replicas on a cluster', () => {
  it('have the same load, also after each node was killed and came back', async () => {
    const nodes = await startCluster()
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
      members[0]!.replicas.holdings.keep('resp_1', { tenant: 't', cluster: 'one', pool: 'm', engine: 'a', model: 'm' })
      await until(async () => (await members[1]!.replicas.holdings.find('resp_1', 't')) !== null)
      expect(members.map((member) => member.streams.length > 0)).toEqual([true, true, true])
    } finally {
      await Promise.all(members.map((member) => member.close()))
      await Promise.all(nodes.map((node) => node.stop()))
    }
  })
})
