/** What happens to the bookings of replicas when the server, a connection or a replica fails. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { administrator, findServer, ValkeyServer } from '../../../scripts/valkey-server.ts'
import { SCRIPTS } from '../../../src/platform/node/replicas/scripts.ts'
import { until } from '../../wait.ts'
import { converged, documentedRights, loaded, Member } from './member.ts'

const binary = await findServer()

describe.skipIf(binary === null)('replicas', () => {
  let server: ValkeyServer
  let members: Member[]
  let prefix = ''
  let started = 0
  const join = (changes: { readonly url?: string; readonly leaseMs?: number } = {}): Member => {
    const member = new Member({ url: server.url, prefix, ...changes })
    members.push(member)
    return member
  }
  const following = (others: number) => until(() => members.every((member) => member.following === others))
  /** Sends administrator commands. */
  const send = async (...commands: readonly (readonly string[])[]): Promise<void> => {
    const client = await administrator(server.url)
    for (const command of commands) await client.sendCommand([...command])
    client.destroy()
  }
  const fieldsOf = async (hash: string): Promise<string[]> => {
    const client = await administrator(server.url)
    const fields = await client.hKeys(hash)
    client.destroy()
    return fields
  }
  /** Field of an open booking. A replica whose presence has expired on a busy machine writes its hash anew. */
  const bookingIn = (hash: string) => until(async () => (await fieldsOf(hash)).find((key) => key[0] === 'b'))
  const steps = (count: number) =>
    new Promise<void>((resolve) => {
      let left = count
      const next = (): void => void (--left === 0 ? resolve() : setImmediate(next))
      next()
    })

  beforeAll(async () => {
    server = await ValkeyServer.start(binary!)
  })
  afterAll(() => server.stop())
  beforeEach(async () => {
    prefix = `f${++started}`
    members = []
    for (let count = 0; count < 3; count++) join()
    await Promise.all(members.flatMap((member) => [member.admit('m'), member.admit('n')]))
    await following(2)
  })
  afterEach(() => Promise.all(members.map((member) => member.close())))

  it('replicas have the same load as a fourth one that joins', async () => {
    const stop = loaded(members, 1)
    join()
    await following(3)
    await stop()
    await converged(members)
    for (const member of members) await member.finish()
    await converged(members)
    expect(await members[0]!.bookings()).toBe(0)
  })

  it.each([
    ['all subscriptions are cut', [['CLIENT', 'KILL', 'TYPE', 'pubsub']]],
    ['all other connections are cut', [['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes']]],
    ['the scripts are flushed', [['SCRIPT', 'FLUSH']]],
    ['all keys are lost', [['FLUSHALL']]],
    ['scripts and keys are lost', [['SCRIPT', 'FLUSH'], ['FLUSHALL']]],
  ])('replicas converge after %s', async (_what, commands) => {
    const stop = loaded(members, 2)
    await steps(50)
    await send(...commands)
    await steps(50)
    await stop()
    await converged(members)
  })

  it.each(['replicas', 'open'])('replicas converge after the key `%s` of a pool is evicted', async (key) => {
    const stop = loaded(members, 3)
    await steps(50)
    const tag = `${prefix}:2:{one/m}`
    await send(['DEL', key === 'open' ? `${tag}:open:${members[0]!.replicas.id}` : `${tag}:${key}`])
    await stop()
    await converged(members)
  })

  it('replicas serve while the server has no memory left, and converge when it has', async () => {
    await converged(members)
    await send(['CONFIG', 'SET', 'maxmemory', '1'])
    const stop = loaded(members, 8)
    try {
      await until(() => members.every((member) => member.logged('replicas_rejected').length > 0))
    } finally {
      await send(['CONFIG', 'SET', 'maxmemory', '0'])
    }
    expect(members[0]!.logged('replicas_rejected')).toMatchObject([{ next: 'Raise `maxmemory` of the server.' }])
    await stop()
    await converged(members)
  })

  it('replicas converge after a lost message', async () => {
    await converged(members)
    const [one, other] = members as [Member, Member]
    const tag = `${prefix}:2:{one/m}`
    const hash = `${tag}:open:${one.replicas.id}`
    // This end is not published.
    await send(['HDEL', hash, await bookingIn(hash)], ['HINCRBY', hash, '#', '1'])
    await until(async () => (await other.bookings()) === 5)
    // Its next message is refused.
    await one.admit('m')
    await converged(members)
  })

  it('replicas serve while the server is down, keep their state, and converge when it returns without data', async () => {
    await converged(members)
    await server.kill()
    const before = await members[0]!.bookings()
    await until(() => members.every(({ replicas }) => !replicas.isUp))
    const stop = loaded(members, 4)
    await steps(200)
    await stop()
    expect(await members[0]!.bookings()).toBeGreaterThan(before - 4)
    expect(members[0]!.following).toBe(0)
    expect(members[0]!.logged('replicas_disconnected')).toHaveLength(1)
    await server.start()
    await converged(members)
    expect(members[0]!.replicas.isUp).toBe(true)
  })

  it('replicas serve while the server hangs, bound their queues, and converge when it continues', async () => {
    await converged(members)
    server.signal('SIGSTOP')
    const stop = loaded(members, 5)
    await until(() => members.every(({ replicas }) => !replicas.isUp))
    await stop()
    server.signal('SIGCONT')
    await converged(members)
  })

  it('replicas converge after a freeze that is shorter than the limit of a heartbeat', async () => {
    server.signal('SIGSTOP')
    const stop = loaded(members, 6)
    await steps(100)
    server.signal('SIGCONT')
    await stop()
    await converged(members)
  })

  it('replicas remove a replica whose presence expires, and restore it when it reaches the server again', async () => {
    const [one, ...others] = members as [Member, ...Member[]]
    await one.admit()
    await converged(members)
    one.partition()
    // On a busy machine the presence of another one may expire, too, and come back.
    const left = { replica: one.replicas.id, why: 'its presence expired' }
    for (const member of others)
      await until(() =>
        member.logged('replica_left').some(({ replica, why }) => replica === left.replica && why === left.why),
      )
    await until(() => others.every((member) => member.following === 1))
    await until(async () =>
      (await Promise.all(others.map((member) => member.bookings()))).every((count) => count === 4),
    )
    // It continues with its own state.
    expect(await one.bookings()).toBe(7)
    await one.admit()
    one.reconnect()
    await converged(members)
  })

  it('replicas remove a replica that leaves at once, even if it has just published', async () => {
    const [one, ...others] = members as [Member, ...Member[]]
    await converged(members)
    for (let count = 0; count < 50; count++) void one.admit()
    await one.close()
    members = others
    // Long before its presence expires.
    await until(() => others.every(({ following: count }) => count === 1))
    await converged(others)
    expect(others[0]!.logged('replica_left')).toContainEqual(
      expect.objectContaining({ replica: one.replicas.id, why: 'it has ended' }),
    )
    const client = await administrator(server.url)
    expect(await client.exists(`${prefix}:2:{one/m}:open:${one.replicas.id}`)).toBe(0)
    client.destroy()
  })

  it('replicas follow a replica without bookings between two heartbeats', async () => {
    const lazy = new Member({ url: server.url, prefix: `${prefix}lazy`, leaseMs: 6_000 })
    const other = new Member({ url: server.url, prefix: `${prefix}lazy`, leaseMs: 6_000 })
    const client = await administrator(server.url)
    const presence = () => client.zScore(`${prefix}lazy:2:{one/m}:replicas`, other.replicas.id)
    try {
      await until(() => lazy.following === 1 && other.following === 1)
      const before = await presence()
      await until(async () => (await presence()) !== before)
      expect(lazy.logged('replica_left')).toEqual([])
      expect(lazy.following).toBe(1)
    } finally {
      client.destroy()
      await Promise.all([lazy, other].map((member) => member.close()))
    }
  })

  it('replicas publish drains to all, and to those that join after the publisher has left', async () => {
    const [one, two] = members as [Member, Member]
    await one.clusters.get('m')!.observe([{ kind: 'drain', engine: 'a', draining: true }])
    const isDrained = async (member: Member) => (await member.load()).includes('true')
    await until(() => isDrained(two))
    await one.close()
    members.splice(0, 1)
    const late = join()
    await until(() => isDrained(late))
    await late.clusters.get('m')!.observe([{ kind: 'drain', engine: 'a', draining: false }])
    await until(async () => !(await isDrained(two)))
  })

  it('replicas do not restore a replica by a heartbeat that arrives after it has left', async () => {
    const [one] = members as [Member]
    await one.close()
    members.splice(0, 1)
    await until(() => members.every((member) => member.following === 1))
    const client = await administrator(server.url)
    expect(await client.zScore(`${prefix}:2:{one/m}:replicas`, one.replicas.id)).toBeNull()
    client.destroy()
  })

  it('replicas ignore an earlier generation, however late it arrives', async () => {
    const [one] = members as [Member]
    await converged(members)
    const tag = `${prefix}:2:{one/m}`
    const booking = await bookingIn(`${tag}:open:${one.replicas.id}`)
    const client = await administrator(server.url)
    const late = await client.eval(SCRIPTS.publish.text, {
      keys: [`${tag}:open:${one.replicas.id}`, `${tag}:replicas`],
      arguments: [one.replicas.id, '0', `${tag}:events`, 'delete', booking.slice(1), '["leave"]'],
    })
    client.destroy()
    expect(late).toBe(0)
    await converged(members)
  })

  it('exchange 48 MB of open bookings though the server cuts off slow readers', async () => {
    const limits = ['--client-output-buffer-limit', 'pubsub 256kb 64kb 1']
    const small = await ValkeyServer.start(binary!, limits)
    const one = new Member({ url: small.url, leaseMs: 2_000 })
    const other = new Member({ url: small.url, leaseMs: 2_000 })
    try {
      await until(() => one.following === 1 && other.following === 1)
      const blocks = Uint32Array.from({ length: 2 * 6_000 }, (_, at) => at + 1)
      for (let count = 0; count < 750; count++) {
        await one.admit('m', blocks)
        if (count % 10 === 0) await new Promise((resolve) => setImmediate(resolve))
      }
      await converged([one, other])
      const late = new Member({ url: small.url, leaseMs: 2_000 })
      await until(async () => (await late.bookings()) === 750)
      await late.close()
    } finally {
      await Promise.all([one, other].map((member) => member.close()))
      await small.stop()
    }
  })

  it('replicas need no more rights than docs/replicas.md lists', async () => {
    const guarded = await ValkeyServer.start(binary!)
    const client = await administrator(guarded.url)
    await client.sendCommand(['ACL', 'SETUSER', 'firstlight', ...documentedRights('hush')])
    await client.sendCommand(['ACL', 'SETUSER', 'default', 'off'])
    client.destroy()
    const url = guarded.url.replace('//', '//firstlight:hush@')
    const pair = [new Member({ url, prefix: 'firstlight' }), new Member({ url, prefix: 'firstlight' })]
    const wrong = new Member({ url: url.replace('hush', 'wrong'), prefix: 'firstlight' })
    try {
      const stop = loaded(pair, 7)
      await until(() => pair.every((member) => member.following === 1))
      pair[0]!.replicas.storedResponses.keep('resp_1', {
        tenant: 't',
        cluster: 'one',
        pool: 'm',
        engine: 'a',
        model: 'm',
      })
      await until(async () => (await pair[1]!.replicas.storedResponses.find('resp_1', 't')) !== null)
      await pair[1]!.replicas.storedResponses.forget('resp_1')
      const limits = { requestsPerMin: 9, tokensPerMin: 9, tokensPerDay: 9, concurrent: 9 }
      await pair[0]!.replicas.limits.reserve({ key: 'k', id: 'a', limits, tokens: 1 })
      await pair[0]!.replicas.limits.settle({ key: 'k', id: 'a', tokens: 1 })
      await stop()
      await converged(pair)
      expect(pair.flatMap((member) => member.logged('replicas_rejected'))).toEqual([])
      await until(() => wrong.logged('replicas_disconnected').length > 0)
      expect(wrong.logged('replicas_disconnected')).toMatchObject([
        { next: 'Correct the user and password in `replicas.url`.' },
      ])
      expect(JSON.stringify(wrong.lines)).not.toContain(':wrong')
      await wrong.admit()
    } finally {
      await Promise.all([...pair, wrong].map((member) => member.close()))
      await guarded.stop()
    }
  })
})
