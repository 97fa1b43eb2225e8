/**
 * Writes that the server loses, time without it, and replicas that differ: further rows of the table in
 * docs/replicas.md.
 */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { administrator, findServer, ValkeyServer } from '../../../scripts/valkey-server.ts'
import { OpenBooking, OpenBookings } from '../../../src/platform/node/replicas/open-bookings.ts'
import type { Client } from '../../../src/platform/node/replicas/connection.ts'
import { type Script, SCRIPTS } from '../../../src/platform/node/replicas/scripts.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import type { Lease } from '../../../src/ports/lease.ts'
import { admission } from '../../kit/pool-fixtures.ts'
import { turns, until } from '../../wait.ts'
import { converged, Member } from './member.ts'

const binary = await findServer()

type Parts = ConstructorParameters<typeof OpenBookings>[0]

/** Open bookings of a replica without a pool. */
const openBookings = (publish: Parts['publish'], keys: Parts['keys']): OpenBookings =>
  new OpenBookings({
    replica: 'r',
    keys,
    publish,
    control: { client: null, run: () => Promise.reject(new Error('not connected')) },
    localPool: {} as PoolPort,
    pool: () => null,
    leaseMs: 60_000,
    now: Date.now,
    rejected: () => undefined,
  })

/** Adds a booking of 64 KB. */
function addLong(open: OpenBookings, id: number): void {
  const placement = { kind: 'whole', engine: 'a', runnersUp: [] } as const
  const request = admission({ id: String(id), blocks: new Uint32Array(12_000) })
  open.add(new OpenBooking({} as Lease, open, { admission: request, placement, blockTokens: 32, leaseMs: 60_000 }))
}

describe.skipIf(binary === null)('replicas', () => {
  let server: ValkeyServer
  let members: Member[] = []
  let prefix = ''
  let started = 0
  const join = (...changes: ConstructorParameters<typeof Member>[1][]): void => {
    for (const change of changes) members.push(new Member({ url: server.url, prefix }, change))
  }
  const together = () => until(() => members.every(({ following }) => following === members.length - 1))

  beforeAll(async () => {
    server = await ValkeyServer.start(binary!)
  })
  afterAll(() => server.stop())
  beforeEach(() => void (prefix = `l${++started}`))
  afterEach(() => Promise.all(members.splice(0).map((member) => member.close())))

  /** A pool's keys that the first member writes, and how to set them back, as a failover that loses writes does. */
  async function saved(): Promise<() => Promise<void>> {
    const client = await administrator(server.url)
    const tag = `${prefix}:2:{one/m}`
    const keys = [`${tag}:replicas`, `${tag}:open:${members[0]!.replicas.id}`]
    const numberOf = async () => Number(await client.hGet(keys[1]!, '#'))
    // A heartbeat may write between two reads.
    const { before, known } = await until(async () => {
      const number = await numberOf()
      const dumps = await Promise.all(
        keys.map((key) => client.sendCommand(['DUMP', key], { typeMapping: { 36: Buffer } })),
      )
      return number > 0 && (await numberOf()) === number ? { before: dumps, known: number } : null
    })
    return async () => {
      expect(await numberOf()).toBeGreaterThan(known)
      for (const [at, key] of keys.entries())
        await client.sendCommand(['RESTORE', key, '0', before[at] as unknown as string, 'REPLACE'])
      expect(await numberOf()).toBe(known)
      client.destroy()
    }
  }

  it('replicas after a failure converge after a failover that lost the last writes', async () => {
    join({}, {})
    await together()
    const [one] = members as [Member]
    await one.admit()
    await converged(members)
    const fail = await saved()
    await one.admit()
    await one.finish()
    await one.admit()
    await converged(members)
    await fail()
    await one.admit()
    await converged(members)
    join({})
    await converged(members)
  })

  it('replicas after a failure converge after a failover that lost the last writes of one that writes nothing more', async () => {
    join({}, {})
    await together()
    const [one] = members as [Member]
    await one.admit()
    await converged(members)
    const fail = await saved()
    await one.finish()
    await converged(members)
    await fail()
    join({})
    await converged(members)
  })

  it('replicas after a failure write all bookings again after a failover that lost some of them while they were written', async () => {
    const key = `${prefix}:2:{one/m}:open:r`
    const client = await administrator(server.url)
    let begun: unknown = null
    let isLost = false
    let isWhole = false
    const publish = {
      client: client as unknown as Client,
      run: async ({ text, sha }: Script, keys: string[], given: string[]) => {
        const answer = await client.eval(text, { keys, arguments: given })
        if (sha === SCRIPTS.begin.sha)
          begun ??= await client.sendCommand(['DUMP', key], { typeMapping: { 36: Buffer } })
        else if (!isLost) {
          isLost = true
          await client.sendCommand(['RESTORE', key, '0', begun as string, 'REPLACE'])
        }
        isWhole ||= answer === 1 && given.includes('["whole"]')
        return answer
      },
    }
    const open = openBookings(publish, {
      present: `${prefix}:p:{one/m}`,
      channel: `${prefix}:c:{one/m}`,
      bookings: () => key,
    })
    for (const id of [1, 2, 3]) addLong(open, id)
    open.connected(true)
    await until(() => isWhole)
    const written = await client.hKeys(key)
    client.destroy()
    open.connected(false)
    expect([...written].sort()).toEqual(['#', 'b1#0', 'b2#0', 'b3#0'])
  })

  it('replicas after a failure keep the bookings of others until the lease of the pool without the server, and not longer', async () => {
    join({ leaseMs: 3_000 }, { leaseMs: 3_000 })
    await together()
    const [one, other] = members as [Member, Member]
    await other.admit()
    await converged(members)
    const partitionedAt = performance.now()
    one.partition()
    expect(await one.bookings()).toBe(1)
    await until(async () => {
      // As its stream does.
      await other.streams[0]!.lease.renew()
      return (await one.bookings()) === 0
    })
    expect(performance.now() - partitionedAt).toBeGreaterThan(2_000)
    one.reconnect()
    await converged(members)
  })

  it('replicas after a failure follow the pools of their own configuration only', async () => {
    members.push(new Member({ url: server.url, prefix }))
    members.push(new Member({ url: server.url, prefix }, {}, ['m']))
    await together()
    const [one, other] = members as [Member, Member]
    await one.admit('m')
    await one.admit('n')
    await until(async () => (await other.bookings()) === 1)
    const client = await administrator(server.url)
    const readers = (name: string) => client.pubSubShardNumSub(`${prefix}:2:{one/${name}}:events`)
    await expect.poll(async () => Object.values({ ...(await readers('m')), ...(await readers('n')) })).toEqual([2, 1])
    client.destroy()
    await expect.poll(() => one.replicas.digests).toMatchObject([{ state: 'following', bookings: 0 }])
    await expect.poll(() => other.replicas.digests).toMatchObject([{ state: 'following', bookings: 1 }])
  })

  it('replicas after a failure count bookings of another block size as load, not as cache', async () => {
    const policy = { name: 'predicted', options: {} }
    join({ blockTokens: 32, policy }, { blockTokens: 64, policy })
    await together()
    const [one, other] = members as [Member, Member]
    const blocks = Uint32Array.from({ length: 16 }, (_, at) => at + 1)
    const { engine } = (await one.admit('m', blocks).then(() => one.load())).match(/"(?<engine>[abc])",1/)!.groups!
    await until(async () => (await other.load()).includes(`["${engine}",1`))
    const cachedTokensAt = async (member: Member) => {
      const ranked = await member.clusters
        .get('m')!
        .decisions!.dryRun(admission({ id: 'q', promptTokens: 512, blocks }))
      if ('refusal' in ranked) throw new Error(ranked.refusal.detail)
      return ranked.decision.candidates.find((candidate) => candidate.engine === engine)!.terms['cached_tokens']
    }
    expect(await cachedTokensAt(one)).toBe(256)
    expect(await cachedTokensAt(other)).toBe(0)
  })

  it('replicas after a failure name the missing right and serve alone', async () => {
    const guarded = await ValkeyServer.start(binary!)
    const client = await administrator(guarded.url)
    const rights = ['~*', '&*', '+@all']
    await client.sendCommand(['ACL', 'SETUSER', 'none', 'on', '>pass', ...rights, '-eval', '-evalsha'])
    await client.sendCommand(['ACL', 'SETUSER', 'half', 'on', '>pass', ...rights, '-spublish'])
    client.destroy()
    const lacking = ['none', 'half'].map((user) => new Member({ url: guarded.url.replace('//', `//${user}:pass@`) }))
    try {
      for (const member of lacking) {
        await until(() => member.logged('replicas_rejected').length > 0)
        expect(member.logged('replicas_rejected')).toMatchObject([
          { next: 'Grant the rights that docs/replicas.md lists.' },
        ])
        await member.admit()
        expect(await member.bookings()).toBe(1)
      }
    } finally {
      await Promise.all(lacking.map((member) => member.close()))
      await guarded.stop()
    }
  })
})

it('bookings beyond 8 MB without an answer are not sent, and all are written again after the answers', async () => {
  let answer: () => void = () => undefined
  const answered = new Promise<void>((resolve) => (answer = resolve))
  const sent: { readonly sha: string; readonly chars: number }[] = []
  const publish: Parts['publish'] = {
    client: {} as Client,
    run: async ({ sha }, _keys, given) => {
      sent.push({ sha, chars: given.join('').length })
      return answered.then(() => 1)
    },
  }
  const open = openBookings(publish, { present: 'p', channel: 'c', bookings: () => 'o' })
  open.connected(true)
  for (let id = 0; id < 300; id++) addLong(open, id)
  await turns()
  const total = () => sent.reduce((sum, { chars }) => sum + chars, 0)
  expect(total()).toBeGreaterThan(8e6)
  expect(total()).toBeLessThan(9e6)
  const begun = () => sent.filter(({ sha }) => sha === SCRIPTS.begin.sha).length
  expect(begun()).toBe(1)
  answer()
  await until(() => begun() === 2)
  await until(() => total() > 8e6 + 300 * 64_000)
})
