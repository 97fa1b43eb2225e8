/** Limits per key, counted on a real server for several gateways. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { administrator, findServer, ValkeyServer } from '../../../scripts/valkey-server.ts'
import { BudgetCounter } from '../../../src/core/budgets/budget-counter.ts'
import { KeyLimiter } from '../../../src/core/limits/key-limiter.ts'
import type { KeyLimits } from '../../../src/core/limits/key-limits.ts'
import { createClientOf, Connection } from '../../../src/platform/node/replicas/connection.ts'
import { decodeIssuedKey } from '../../../src/core/keys/issued-key.ts'
import { ReplicatedKeys } from '../../../src/platform/node/replicas/replicated-keys.ts'
import { ReplicatedLimits } from '../../../src/platform/node/replicas/replicated-limits.ts'
import type { ReplicaState } from '../../../src/platform/node/ports.ts'
import { Replicas } from '../../../src/platform/node/replicas/replicas.ts'
import { openLog } from '../../../src/platform/node/log.ts'
import { chance } from '../../../packages/replay/src/replay/chance.ts'
import { keyLimitsContract } from '../../contracts/key-limits.ts'
import { limiterContract } from '../../contracts/limiter.ts'
import { nodeConfig, startNodeGateway } from '../../kit/node-gateway.ts'
import { until } from '../../wait.ts'

limiterContract('memory', () => new KeyLimiter())

/** Nothing listens there. */
const NOWHERE = { id: 'a', url: 'http://127.0.0.1:9' }

const binary = await findServer()
const FREE: KeyLimits = { requestsPerMin: null, tokensPerMin: null, tokensPerDay: null, concurrent: null }

/** Hook by which a gateway joins the replicas of its configuration, and what it joined. */
function joining(document: Record<string, unknown>) {
  let replicas: Replicas | undefined
  const joinReplicas = (own: ReplicaState): Replicas =>
    (replicas = new Replicas(nodeConfig(document).replicas!, { log: openLog('silent'), now: Date.now, ...own }))
  return { joinReplicas, replicas: () => replicas! }
}

describe.skipIf(binary === null)('a Valkey server', () => {
  let server: ValkeyServer
  const connections: Connection[] = []
  let prefixes = 0
  let prefix = ''

  beforeAll(async () => {
    server = await ValkeyServer.start(binary!)
  })
  afterEach(() => {
    for (const connection of connections.splice(0)) connection.close()
  })
  afterAll(() => server.stop())

  async function connected(): Promise<Connection> {
    const config = { url: server.url, cluster: false, prefix: 'x', leaseMs: 1_000 }
    const connection = new Connection(() => createClientOf(config), { up: () => undefined, down: () => undefined })
    connections.push(connection)
    await until(() => connection.client !== null)
    return connection
  }

  const limitsOn = (connection: Connection, more: { readonly now?: () => number; readonly leaseMs?: number } = {}) =>
    new ReplicatedLimits({ connection, prefix, leaseMs: 3_600_000, rejected: () => undefined, ...more })

  it('a Valkey server counts budgets as memory does', async () => {
    prefix = `b${++prefixes}`
    const random = chance(5)
    let time = Date.UTC(2026, 10, 28)
    const limits = limitsOn(await connected(), { now: () => time })
    const memory = new BudgetCounter()
    for (let step = 0; step < 60; step++) {
      time += Math.floor(random() * 12 * 3_600_000)
      const tokens = Math.floor(random() * 3) * 100
      const charge = { key: `k${step % 2}`, tokens, engineS: tokens / 8, money: tokens / 16 }
      expect(await limits.charge(charge)).toEqual(memory.charge(charge, time))
    }
  })

  it('a budget on a Valkey server stays in its period for a gateway whose clock is late', async () => {
    prefix = `b${++prefixes}`
    let time = Date.UTC(2026, 11, 1)
    const limits = limitsOn(await connected(), { now: () => time })
    const charge = { key: 'k', tokens: 5, engineS: 0, money: 0 }
    const { day, month } = await limits.charge(charge)
    time -= 3_000
    expect(await limits.charge(charge)).toMatchObject({ day, month, ofDay: { tokens: 10 }, ofMonth: { tokens: 10 } })
  })

  it('a Valkey server has the issued keys of all replicas, and a new version after each change', async () => {
    const parts = { connection: await connected(), prefix: `i${++prefixes}` }
    const [one, other] = [new ReplicatedKeys(parts), new ReplicatedKeys(parts)]
    const key = decodeIssuedKey({ name: 'ada', sha256: 'a'.repeat(64), budgets: [{ per: 'day', tokens: 5 }] })!
    const empty = await one.read(null)
    expect(empty).toEqual({ version: '0', keys: [] })
    expect(await one.add(key)).toBe(true)
    expect(await other.add({ ...key, owner: 'somebody else' })).toBe(false)
    const found = (await other.read(empty!.version))!
    expect(found.keys).toEqual([key])
    expect(await other.read(found.version)).toBeNull()
    expect(await other.remove('ada')).toBe(true)
    expect(await one.remove('ada')).toBe(false)
    expect((await one.read(found.version))!.keys).toEqual([])
  })

  it('a key that was made at one replica is accepted and revoked at the other', async () => {
    const config = {
      open: false,
      admin: { secret: 'secret-of-admin' },
      issued_keys: { refresh_ms: 100 },
      replicas: { url: server.url, prefix: `i${++prefixes}` },
    }
    const open = async () => {
      const document = { ...config, clusters: [{ id: 'c', pools: [{ model: 'm', engines: [NOWHERE] }] }] }
      const { joinReplicas } = joining(document)
      return startNodeGateway(document, { hooks: { joinReplicas } })
    }
    const opened = [await open(), await open()] as const
    try {
      const [one, other] = opened
      const admin = { authorization: 'Bearer secret-of-admin', 'content-type': 'application/json' }
      const make = () =>
        fetch(`${one.url}/v1/firstlight/keys`, {
          method: 'POST',
          headers: admin,
          body: JSON.stringify({ name: 'ada' }),
        })
      let made = await make()
      // The connection to the server may come after the start.
      await until(async () => made.status === 200 || (made = await make()).status === 200)
      const { key } = (await made.json()) as { key: string }
      const models = async () =>
        (await fetch(`${other.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).status
      await until(async () => (await models()) === 200)
      await fetch(`${one.url}/v1/firstlight/keys/ada`, { method: 'DELETE', headers: admin })
      await until(async () => (await models()) === 401)
    } finally {
      for (const gateway of opened) await gateway.close()
    }
  })

  limiterContract('a Valkey server', async () => {
    prefix = `c${++prefixes}`
    let time = 0
    const limits = limitsOn(await connected(), { now: () => time })
    return {
      reserve: (request, now) => {
        time = now
        return limits.reserve(request)
      },
      settle: (settlement, now) => {
        time = now
        limits.settle(settlement)
      },
    }
  })

  it('a Valkey server never admits more than the limits, whatever four gateways do at once', async () => {
    for (let seed = 1; seed <= 5; seed++) {
      prefix = `p${++prefixes}`
      const random = chance(seed)
      const gateways = await Promise.all(Array.from({ length: 4 }, async () => limitsOn(await connected())))
      const limits = { ...FREE, concurrent: 7, requestsPerMin: 60 }
      const running = new Set<string>()
      let admitted = 0
      const use = async (gateway: ReplicatedLimits, id: string): Promise<void> => {
        const { exceeded } = await gateway.reserve({ key: 'team', id, limits, tokens: 1 })
        if (exceeded !== null) return
        admitted += 1
        running.add(id)
        expect(running.size).toBeLessThanOrEqual(limits.concurrent)
        for (let turns = Math.floor(20 * random()); turns > 0; turns--) await new Promise(setImmediate)
        running.delete(id)
        gateway.settle({ key: 'team', id, tokens: 1 })
      }
      await Promise.all(
        gateways.flatMap((gateway, at) =>
          Array.from({ length: 10 }, async (_, stream) => {
            for (let count = 0; count < 10; count++) await use(gateway, `${at}/${stream}/${count}`)
          }),
        ),
      )
      expect(admitted).toBe(limits.requestsPerMin)
    }
  })

  it('a Valkey server frees the places of a gateway that has ended after its lease, and not before', async () => {
    prefix = `l${++prefixes}`
    const [dead, alive, third] = await Promise.all(
      [1_000, 1_000, 1_000].map(async (leaseMs) => limitsOn(await connected(), { leaseMs })),
    )
    const limits = { ...FREE, concurrent: 2 }
    const ask = async (gateway: ReplicatedLimits, id: string) =>
      (await gateway.reserve({ key: 'k', id, limits, tokens: 1 })).exceeded
    expect(await ask(dead!, 'a')).toBeNull()
    expect(await ask(alive!, 'b')).toBeNull()
    expect(await ask(third!, 'c')).toBe('concurrent')
    await until(async () => {
      await alive!.renew()
      return (await ask(third!, 'c')) === null
    })
    // The renewed request still runs.
    expect(await ask(third!, 'd')).toBe('concurrent')
  })

  it('a Valkey server has running requests again after it has lost all keys', async () => {
    prefix = `f${++prefixes}`
    const limits = limitsOn(await connected())
    const ask = async (id: string) =>
      (await limits.reserve({ key: 'k', id, limits: { ...FREE, concurrent: 1 }, tokens: 1 })).exceeded
    expect(await ask('a')).toBeNull()
    const client = await administrator(server.url)
    await client.sendCommand(['FLUSHALL'])
    await client.sendCommand(['SCRIPT', 'FLUSH'])
    client.destroy()
    await limits.renew()
    expect(await ask('b')).toBe('concurrent')
    limits.settle({ key: 'k', id: 'a', tokens: 1 })
    expect(await ask('c')).toBeNull()
  })

  const start = async (document: Record<string, unknown>, url = server.url) => {
    const replicated = { ...document, replicas: { url, prefix, lease_ms: 1_000 } }
    const { joinReplicas, replicas } = joining(replicated)
    const gateway = await startNodeGateway(replicated, { hooks: { joinReplicas } })
    await until(() => replicas().isUp)
    return { url: gateway.url, replicas: replicas(), close: () => gateway.stop(AbortSignal.abort()) }
  }

  it('a Valkey server is replaced by a share of each gateway while it is gone', async () => {
    prefix = `s${++prefixes}`
    const own = await ValkeyServer.start(binary!)
    const document = {
      keys: [{ name: 'team', secret: 'team-secret-1', limits: { requests_per_min: 10 } }],
      clusters: [{ id: 'one', pools: [{ model: 'm', engines: [{ id: 'a', url: 'http://127.0.0.1:9' }] }] }],
    }
    const gateways = await Promise.all([start(document, own.url), start(document, own.url)])
    const ask = async (url: string): Promise<number> => {
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: 'Bearer team-secret-1' },
        body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'hi' }] }),
      })
      await response.text()
      return response.status
    }
    try {
      await until(() => gateways.every(({ replicas }) => replicas.limits.share.count === 2))
      // Counted once for both.
      expect([await ask(gateways[0]!.url), await ask(gateways[1]!.url)]).not.toContain(429)
      await own.stop()
      await until(() => gateways.every(({ replicas }) => !replicas.isUp))
      for (const { url } of gateways) {
        const statuses: number[] = []
        for (let count = 0; count < 7; count++) statuses.push(await ask(url))
        // One of its five was admitted before.
        expect(statuses.filter((status) => status !== 429)).toHaveLength(4)
      }
    } finally {
      await Promise.all(gateways.map(({ close }) => close()))
      await own.stop()
    }
  })

  keyLimitsContract('two gateways on Node with a Valkey server', async (document) => {
    prefix = `g${++prefixes}`
    const gateways = await Promise.all([start(document), start(document)])
    let sent = 0
    return {
      send: (request) => fetch(new Request(gateways[sent++ % 2]!.url + new URL(request.url).pathname, request)),
      close: async () => void (await Promise.all(gateways.map(({ close }) => close()))),
    }
  })
})
