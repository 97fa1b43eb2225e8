/** Gateways in front of the same engines, which exchange their bookings over a real server. */
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { parseConfig } from '../../../src/config/parse.ts'
import { openLog } from '../../../src/platform/node/log.ts'
import type { ReplicaState } from '../../../src/platform/node/ports.ts'
import { Replicas } from '../../../src/platform/node/replicas/replicas.ts'
import { decodeAdmission, encodeAdmission } from '../../../src/platform/node/replicas/messages.ts'
import { encodeRegistryCall, decodeRegistryCall } from '../../../src/platform/node/replicas/messages.ts'
import { startGateway, type RunningGateway } from '../../../src/platform/node/start-gateway.ts'
import { startThreads } from '../../../src/platform/node/threads/start-threads.ts'
import { admission } from '../../kit/pool-fixtures.ts'
import { openSlowEngine, type HeldEngine } from '../../kit/held-engine.ts'
import { until } from '../../wait.ts'
import { administrator, findServer, ValkeyServer } from '../../../scripts/valkey-server.ts'

const now = () => Date.now()
const never = new AbortController().signal

interface EngineView {
  readonly id: string
  readonly requests: number
  readonly draining: boolean
  readonly paused?: object
}
interface PoolView {
  readonly bookings: number
  readonly engines: readonly EngineView[]
}
interface FleetView {
  readonly pools: readonly PoolView[]
  readonly replicas: readonly { readonly state: string; readonly bookings: number }[]
}

class Replica {
  readonly lines: Record<string, unknown>[] = []
  gateway!: RunningGateway
  replicas!: Replicas

  async start(
    engines: readonly HeldEngine[],
    server: string,
    { prefix, threads = 1, pool = {} }: Changes,
  ): Promise<this> {
    const config = parseConfig(
      {
        listen: '127.0.0.1:0',
        clusters: [
          {
            id: 'one',
            pools: [
              {
                model: 'm',
                policy: 'least_loaded',
                lease_ms: 20_000,
                ...pool,
                engines: engines.map(({ url }, at) => ({ id: 'abc'[at], url, lmcache_instance: `i${at}` })),
              },
            ],
          },
        ],
        replicas: { url: server, prefix, lease_ms: 2000 },
      },
      {},
      { defaultVersion: 1, defaultObserveShare: 1, listens: true },
    )
    const log = openLog('debug', { write: (line) => void this.lines.push(JSON.parse(line) as Record<string, unknown>) })
    const joinReplicas = (own: ReplicaState): Replicas =>
      (this.replicas = new Replicas(config.replicas!, { log, now, ...own }))
    this.gateway =
      threads === 1
        ? await startGateway(config, log, '.', { joinReplicas })
        : await startThreads(config, log, { count: threads, hooks: { joinReplicas } })
    return this
  }

  async fleet(): Promise<FleetView> {
    const response = await fetch(`${this.gateway.url}/v1/firstlight/fleet`)
    return (await response.json()) as FleetView
  }

  async pool(): Promise<PoolView> {
    return (await this.fleet()).pools[0]!
  }

  async requests(): Promise<Record<string, number>> {
    return Object.fromEntries((await this.pool()).engines.map(({ id, requests }) => [id, requests]))
  }

  /** Kept, because an unreferenced response is aborted at garbage collection. */
  readonly answers: Response[] = []

  async chat(signal: AbortSignal = never): Promise<Response> {
    const answer = await fetch(`${this.gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'm', stream: true, messages: [{ role: 'user', content: 'hi' }] }),
      signal,
    })
    this.answers.push(answer)
    return answer
  }

  async stop(): Promise<void> {
    await this.gateway.stop(AbortSignal.abort())
  }
}

interface Changes {
  readonly prefix: string
  readonly threads?: number
  readonly pool?: object
}

describe('messages', () => {
  it('messages between replicas carry reports of LMCache servers unchanged', () => {
    const batch = {
      instance: 'i',
      incarnation: 1,
      seq: 2,
      kind: 'store',
      level: 'l1',
      backend: 'b',
      shared: false,
      worldSize: 1,
      keys: Uint32Array.of(1, 2 ** 32 - 1, 3, 4),
      ranks: Uint8Array.of(0, 255),
    } as const
    const call = { kind: 'events', batches: [batch] } as const
    expect(decodeRegistryCall(encodeRegistryCall(call))).toEqual(call)
  })

  it('messages between replicas contain neither tenant nor session', () => {
    const request = admission({
      tenant: 'team-a',
      session: 'session-1',
      avoid: ['a'],
      blocks: Uint32Array.of(5, 6).subarray(0, 2),
    })
    const text = JSON.stringify(encodeAdmission(request))
    expect(text).not.toMatch(/team-a|session-1/)
    expect(decodeAdmission(JSON.parse(text) as ReturnType<typeof encodeAdmission>)).toEqual({
      ...request,
      tenant: '',
      session: null,
      avoid: [],
    })
  })
})

const binary = await findServer()

describe.skipIf(binary === null)('two replicas', () => {
  let server: ValkeyServer
  let engines: HeldEngine[]
  let prefix = ''
  let started = 0
  let one: Replica
  let other: Replica
  const open: Replica[] = []
  const start = async (changes: Partial<Changes> = {}): Promise<Replica> => {
    const replica = new Replica()
    open.push(replica)
    return replica.start(engines, server.url, { prefix, ...changes })
  }
  const joined = (replica: Replica, others = 1) =>
    until(async () => (await replica.fleet()).replicas.filter(({ state }) => state === 'following').length === others)

  beforeAll(async () => {
    server = await ValkeyServer.start(binary!)
  })
  afterAll(() => server.stop())
  beforeEach(async () => {
    engines = [await openSlowEngine(), await openSlowEngine()]
    prefix = `test${++started}`
    one = await start()
    other = await start()
    await Promise.all([joined(one), joined(other)])
  })
  afterEach(async () => {
    for (const engine of engines) engine.finish()
    for (const replica of open.splice(0)) await replica.stop()
    for (const engine of engines) await engine.close()
  })

  it('two replicas do not count themselves as peers', async () => {
    expect((await one.fleet()).replicas).toHaveLength(1)
    expect((await other.fleet()).replicas).toHaveLength(1)
  })

  it('see each other’s bookings, and none after their end', async () => {
    const answers = [await one.chat(), await one.chat(), await other.chat(), await other.chat()]
    for (const replica of [one, other])
      await until(async () => JSON.stringify(await replica.requests()) === '{"a":2,"b":2}')
    expect(engines.map((engine) => engine.held.length)).toEqual([2, 2])
    expect((await one.fleet()).replicas[0]).toMatchObject({ bookings: 2 })
    for (const engine of engines) engine.finish()
    for (const answer of answers) await answer.text()
    for (const replica of [one, other]) await until(async () => (await replica.pool()).bookings === 0)
    expect((await one.fleet()).replicas[0]).toMatchObject({ bookings: 0 })
  })

  it('route around each other’s bookings', async () => {
    // Each one alone would start with the same engine.
    for (let turn = 0; turn < 4; turn++) {
      const before = engines.map((engine) => engine.held.length)
      await one.chat()
      await until(async () => (await other.pool()).bookings === 2 * turn + 1)
      await other.chat()
      await until(async () => (await one.pool()).bookings === 2 * turn + 2)
      expect(engines.map((engine, at) => engine.held.length - before[at]!)).toEqual([1, 1])
    }
  })

  it('two replicas release a booking on all replicas when the client disconnects', async () => {
    const leaving = new AbortController()
    const answer = await one.chat(leaving.signal)
    await until(async () => (await other.pool()).bookings === 1)
    leaving.abort()
    await answer.text().catch(() => '')
    await until(async () => (await other.pool()).bookings === 0)
  })

  it('drain an engine on all replicas', async () => {
    await fetch(`${one.gateway.url}/v1/firstlight/engines/a/drain`, { method: 'POST' })
    await until(async () => (await other.pool()).engines.some(({ id, draining }) => id === 'a' && draining))
    const third = await start()
    await until(async () => (await third.pool()).engines.some(({ id, draining }) => id === 'a' && draining))
    await fetch(`${other.gateway.url}/v1/firstlight/engines/a/undrain`, { method: 'POST' })
    await until(async () => (await one.pool()).engines.every(({ draining }) => !draining))
  })

  it('pause a pool on all replicas with one call, which ends the answers of each', async () => {
    const command = (replica: Replica, action: string, body: object) =>
      fetch(`${replica.gateway.url}/v1/firstlight/pools/m/${action}`, { method: 'POST', body: JSON.stringify(body) })
    const isPaused = async (replica: Replica): Promise<boolean> =>
      (await replica.pool()).engines.every(({ paused }) => paused !== undefined)
    const stream = await other.chat()
    await until(async () => (await one.pool()).bookings === 1)
    expect((await command(one, 'pause', { mode: 'abort' })).status).toBe(200)
    // The engine has not ended it.
    expect(await stream.text().catch(() => 'truncated')).not.toContain('[DONE]')
    await until(() => isPaused(other))
    const third = await start()
    await until(() => isPaused(third))
    expect((await command(other, 'resume', {})).status).toBe(200)
    for (const replica of [one, third])
      await until(async () => (await replica.pool()).engines.every(({ paused }) => paused === undefined))
  })

  it('a replica with threads ends the answers of each of its threads when another one pauses the pool', async () => {
    const threaded = await start({ threads: 2 })
    await joined(threaded, 2)
    const held = (): number => engines.reduce((sum, engine) => sum + engine.held.length, 0)
    // The kernel chooses a thread for each connection.
    const streams = await Promise.all(Array.from({ length: 12 }, () => threaded.chat()))
    await until(async () => held() === 12 && (await one.pool()).bookings === 12)
    const paused = await fetch(`${one.gateway.url}/v1/firstlight/pools/m/pause`, {
      method: 'POST',
      body: JSON.stringify({ mode: 'abort' }),
    })
    expect(await paused.json()).toMatchObject({ paused: true })
    // The engines themselves end none.
    for (const stream of streams) expect(await stream.text().catch(() => 'truncated')).not.toContain('[DONE]')
    await until(() => held() === 0)
  })

  it('two replicas send open bookings to a third one that joins', async () => {
    await one.chat()
    // Without the first booking, the second request may go to the same engine.
    await until(async () => (await other.pool()).bookings === 1)
    await other.chat()
    const third = await start()
    await joined(third, 2)
    await until(async () => JSON.stringify(await third.requests()) === '{"a":1,"b":1}')
  })

  it('two replicas remove the bookings of one that leaves, at once', async () => {
    await one.chat()
    await until(async () => (await other.pool()).bookings === 1)
    open.splice(open.indexOf(one), 1)
    await one.stop()
    await until(async () => (await other.pool()).bookings === 0)
    expect(other.lines.some(({ event, msg }) => (event ?? msg) === 'replica_left')).toBe(true)
  })

  it('explain each other’s decisions, and find each other’s stored responses', async () => {
    const answer = await one.chat()
    const explained = await fetch(`${other.gateway.url}/v1/firstlight/decisions/${answer.headers.get('x-request-id')}`)
    expect(explained.status).toBe(200)
    expect(await explained.json()).toMatchObject({ placement: { engine: answer.headers.get('x-firstlight-engine') } })
    expect((await fetch(`${other.gateway.url}/v1/firstlight/decisions/nobodys`)).status).toBe(404)
    const holding = { tenant: 't', cluster: 'one', pool: 'm', engine: 'a', model: 'm' }
    one.replicas.storedResponses.keep('resp_1', holding)
    const find = (replica: Replica, tenant = 't') => replica.replicas.storedResponses.find('resp_1', tenant)
    await until(async () => (await find(other)) !== null)
    expect(await find(other, 'somebody')).toBeNull()
    one.replicas.storedResponses.keep('resp_1', { ...holding, tenant: 'somebody' })
    const third = await start()
    await until(async () => (await find(third)) !== null)
    await other.replicas.storedResponses.forget('resp_1')
    await until(async () => (await find(one)) === null)
    expect(await find(third)).toBeNull()
  })

  it('forward reports of LMCache servers to every registry', async () => {
    for (const replica of [one, other]) await replica.stop()
    open.splice(0)
    const pool = { lmcache: { registry: true, chunk_tokens: 256 } }
    one = await start({ pool })
    other = await start({ pool })
    await Promise.all([joined(one), joined(other)])
    const instance = {
      instance_id: 'i0',
      ip: '127.0.0.1',
      http_port: 1234,
      metadata: {},
      p2p_advertise_url: '',
      mq_port: 1,
    }
    const registered = await fetch(`${one.gateway.url}/lmcache/one/instances`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(instance),
    })
    expect(registered.status).toBe(200)
    await until(async () =>
      JSON.stringify(await (await fetch(`${other.gateway.url}/lmcache/one/instances`)).json()).includes('"i0"'),
    )
  })

  it('two replicas share bookings with threads as without, over the connections of one process', async () => {
    const client = await administrator(server.url)
    const connections = async () => (await client.clientList()).length
    const before = await connections()
    const third = await start({ threads: 2 })
    await joined(third, 2)
    // Events, subscription, heartbeats: as each process without threads.
    expect((await connections()) - before).toBe((before - 1) / 2)
    client.destroy()
    await one.chat()
    expect(await until(async () => (await third.pool()).bookings)).toBe(1)
  })
})
