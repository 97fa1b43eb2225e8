import { describe, expect, it } from 'vitest'
import { InstanceMap } from '../../../src/core/lmcache/instance-map.ts'
import { Coordinator } from '../../../src/origin/lmcache/coordinator.ts'
import { Controller } from '../../../src/origin/lmcache/controller.ts'
import { PoolLookup } from '../../../src/origin/lmcache/pool-lookup.ts'
import { TimeoutRateMonitor } from '../../../src/origin/lmcache/timeout-rate-monitor.ts'
import { openDeadline } from '../../../src/origin/lmcache/open-deadline.ts'
import { LmcacheMetadata } from '../../../src/origin/lmcache/lmcache-metadata.ts'
import { ServiceCircuit } from '../../../src/origin/service-circuit.ts'
import { SkipCounter } from '../../../src/origin/lmcache/skipped-lookups.ts'
import type { EngineTarget } from '../../../src/ports/engine-target.ts'
import type { Origin, OriginAnswer, OriginRequest } from '../../../src/ports/origin.ts'
import { FakeController } from '../../../packages/simulator/src/lmcache/controller.ts'
import { FakeCoordinator } from '../../../packages/simulator/src/lmcache/coordinator.ts'

type Fetch = (request: Request) => Promise<Response>

/** Responses by the host of the URL. */
function originOf(services: Readonly<Record<string, Fetch>>): Origin {
  return {
    async send({ target, method, path, body }: OriginRequest): Promise<OriginAnswer> {
      const { hostname } = new URL(target.url)
      const service = services[hostname]
      if (service === undefined) throw new Error(`nobody listens at ${hostname}`)
      const response = await service(
        new Request(target.url + path, {
          method,
          ...(body === null ? {} : { body: body[0] as Uint8Array<ArrayBuffer> }),
        }),
      )
      return {
        status: response.status,
        headers: [],
        sse: false,
        firstByte: async () => {},
        read: async () => new Uint8Array(await response.arrayBuffer()),
        reader: () => ({ read: async () => null, cancel: () => {} }),
        pass: () => new Response(),
        firstBytes: () => new Uint8Array(),
        fault: () => null,
        discard: () => {},
      }
    },
  }
}

const target = (url: string): EngineTarget => ({ kind: 'server', id: url, url, headers: [], binding: null })
const engineOf =
  (root: string | null): Fetch =>
  async () =>
    Response.json({
      object: 'list',
      data: [
        { id: 'served', ...(root === null ? {} : { root }) },
        { id: 'adapter', root: 'elsewhere' },
      ],
    })
const ids = (count: number): Uint32Array => Uint32Array.from({ length: count }, (_, at) => at % 4000)

interface LmcacheFixtureOptions {
  readonly services: Readonly<Record<string, Fetch>>
  readonly legacy?: boolean
  readonly model?: string
}

/** Two engines at 10.0.0.1 and 10.0.0.2, whose instances are found by host; the clock does not advance. */
function open({ services, legacy = false, model = 'm' }: LmcacheFixtureOptions) {
  const clock = { now: 1_000_000 }
  const logged: string[] = []
  const log = (event: string) => void logged.push(event)
  const origin = originOf(services)
  const ports = { origin, now: () => clock.now, log: { debug: () => {}, info: log, warn: log, error: log } }
  const source = legacy
    ? new Controller(origin, target('http://beside'))
    : new Coordinator(origin, target('http://beside'))
  const engines = ['a', 'b']
  const map = new InstanceMap(engines.map((id, at) => ({ id, host: `10.0.0.${at + 1}`, instance: null })))
  const targets = new Map(engines.map((id, at) => [id, target(`http://10.0.0.${at + 1}`)]))
  const facts = new LmcacheMetadata({
    ports,
    targets,
    map,
    source,
    model: model === '' ? null : model,
    worldSize: 1,
    servedModel: 'served',
  })
  const skips = new SkipCounter()
  const lookup = new PoolLookup({
    ports,
    source,
    metadata: facts,
    engines,
    shared: false,
    skipped: skips.count,
    names: {},
  })
  const find = async (tokens = ids(600)) => {
    const deadline = openDeadline(5_000, () => clock.now)
    const background: Promise<unknown>[] = []
    try {
      return await lookup.find({ tokens, salt: null, deadline, background: (work) => void background.push(work) })
    } finally {
      await Promise.all(background)
      deadline.end()
    }
  }
  return { clock, logged, facts, lookup, skips, find }
}

describe('engines found by host', () => {
  it('engines found by host are credited with the entries of the instance at their address', async () => {
    const fake = new FakeCoordinator()
    fake.join('X', '10.0.0.2')
    fake.store('m', ids(600), { instance: 'X' })
    const { find, logged } = open({ services: { beside: (request) => fake.fetch(request) } })
    expect(await find()).toEqual(new Map([['b', [{ matchedTokens: 512, tier: 'host' }]]]))
    expect(logged).toEqual(['lmcache_instance_unknown'])
  })

  it('engines found by host are resolved again when a response names an unknown instance', async () => {
    const fake = new FakeCoordinator()
    fake.join('X', '10.0.0.2')
    fake.store('m', ids(600), { instance: 'X' })
    const { find, clock } = open({ services: { beside: (request) => fake.fetch(request) } })
    await find()
    fake.join('Y', '10.0.0.1')
    fake.store('m', ids(600), { instance: 'Y' })
    expect([...(await find())!.keys()]).toEqual(['b'])
    clock.now += 4_000
    await find()
    expect(fake.count('/instances')).toBe(1)
    clock.now += 2_000
    await find()
    expect([...(await find())!.keys()]).toEqual(['a', 'b'])
    expect(fake.count('/instances')).toBe(2)
  })

  it('engines found by host are resolved one by one at the legacy controller, which returns an error for an unknown host', async () => {
    const fake = new FakeController()
    fake.hosts.set('10.0.0.1', 'X')
    fake.holds.set('X', { tokens: [...ids(600)], location: 'LocalDiskBackend' })
    const { find } = open({ legacy: true, services: { beside: (request) => fake.fetch(request) } })
    expect(await find()).toEqual(new Map([['a', [{ matchedTokens: 600, tier: 'disk' }]]]))
    expect(fake.count('/query_instance')).toBe(2)
  })
})

describe('the model’s name in the keys', () => {
  const fake = () => {
    const one = new FakeCoordinator()
    one.join('X', '10.0.0.1')
    one.store('path/of', ids(600), { instance: 'X' })
    return one
  }

  it('the model’s name in the keys is the root of an engine, or of the next one if the first does not answer', async () => {
    const coordinator = fake()
    const { find } = open({
      model: '',
      services: { beside: (request) => coordinator.fetch(request), '10.0.0.2': engineOf('path/of') },
    })
    expect([...(await find())!.keys()]).toEqual(['a'])
  })

  it('the model’s name in the keys is the served name if engines report no root', async () => {
    const coordinator = fake()
    coordinator.store('served', ids(600), { instance: 'X' })
    const { find, facts } = open({
      model: '',
      services: { beside: (request) => coordinator.fetch(request), '10.0.0.1': engineOf(null) },
    })
    await find()
    expect(facts.model).toBe('served')
  })

  it('the model’s name in the keys is not guessed: without it no lookup is made, and the request continues', async () => {
    const coordinator = fake()
    const { find, logged } = open({ model: '', services: { beside: (request) => coordinator.fetch(request) } })
    expect(await find()).toBeNull()
    expect(coordinator.count('/directory/lookup')).toBe(0)
    expect(logged).toContain('lmcache_metadata_unreadable')
  })
})

describe('a service that fails', () => {
  it('a service that fails is skipped after five failures, tried once after five seconds, and used again after a success', async () => {
    const fake = new FakeCoordinator()
    fake.join('X', '10.0.0.1')
    fake.store('m', ids(600), { instance: 'X' })
    const { find, clock, lookup, skips, logged } = open({ services: { beside: (request) => fake.fetch(request) } })
    fake.instead = (request) => (request.url.endsWith('/directory/lookup') ? new Response('', { status: 503 }) : null)
    for (let at = 0; at < 8; at += 1) expect(await find()).toBeNull()
    expect(fake.count('/directory/lookup')).toBe(5)
    expect(lookup.counts).toMatchObject({ failed: 5 })
    expect(skips.counts).toEqual({ circuit_open: 3 })
    expect(logged).toContain('lmcache_refused')
    clock.now += 5_001
    await find()
    await find()
    expect(fake.count('/directory/lookup')).toBe(6)
    fake.instead = null
    clock.now += 5_001
    expect((await find())?.size).toBe(1)
    expect((await find())?.size).toBe(1)
    expect(fake.count('/directory/lookup')).toBe(8)
  })
})

describe('a lookup that was given next to no time', () => {
  it('a lookup that was given next to no time is late without blame, so that slow token ids do not open the circuit', async () => {
    const fake = new FakeCoordinator()
    const { lookup, skips, clock } = open({ services: { beside: (request) => fake.fetch(request) } })
    fake.instead = () => new Promise(() => {})
    for (let at = 0; at < 7; at += 1) {
      const deadline = openDeadline(10, () => clock.now)
      clock.now += 9
      expect(await lookup.find({ tokens: ids(600 + at), salt: null, deadline, background: () => {} })).toBeNull()
    }
    expect(lookup.counts).toMatchObject({ late: 7 })
    expect(skips.counts).toEqual({})
  })
})

describe('a prompt without entries', () => {
  it('a prompt without entries is looked up again after two seconds', async () => {
    const fake = new FakeCoordinator()
    fake.join('X', '10.0.0.1')
    const { find, clock, lookup } = open({ services: { beside: (request) => fake.fetch(request) } })
    expect(await find()).toEqual(new Map())
    expect(await find(ids(900))).toEqual(new Map())
    expect(await find(ids(100))).toEqual(new Map())
    expect(fake.count('/directory/lookup')).toBe(1)
    fake.store('m', ids(900), { instance: 'X' })
    clock.now += 2_000
    expect((await find(ids(900)))?.size).toBe(1)
    expect(lookup.counts).toEqual({ found: 1, empty: 3, late: 0, failed: 0 })
  })
})

describe('lookups that come too late', () => {
  it('ring once a minute, when every tenth of at least twenty is late', () => {
    const monitor = new TimeoutRateMonitor()
    const rung: number[] = []
    for (let at = 0; at < 100; at += 1) if (monitor.record(at % 5 === 0, at) !== null) rung.push(at)
    expect(rung).toEqual([19])
    for (let at = 60_000; at < 60_100; at += 1) if (monitor.record(at % 20 === 0, at) !== null) rung.push(at)
    expect(rung).toEqual([19])
    for (let at = 120_000; at < 120_100; at += 1) if (monitor.record(true, at) !== null) rung.push(at)
    expect(rung).toEqual([19, 120_019])
  })

  it('lookups that come too late open the circuit like failures, unless one succeeds in between', () => {
    const circuit = new ServiceCircuit()
    for (let at = 0; at < 4; at += 1) circuit.failed(at)
    circuit.succeeded()
    for (let at = 0; at < 4; at += 1) circuit.failed(at)
    expect(circuit.admits(5)).toBe(true)
    circuit.failed(6)
    expect([circuit.admits(7), circuit.admits(5_007), circuit.admits(5_008)]).toEqual([false, true, false])
  })

  it('lookups that come too late take no longer than the rest of the budget', async () => {
    const deadline = openDeadline(5, () => 0)
    expect(await deadline.within(new Promise(() => {}))).toBeNull()
    expect([deadline.isOver, deadline.signal.aborted]).toEqual([true, true])
  })
})
