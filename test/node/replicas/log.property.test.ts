/** Two replicas and what they tell each other, as bytes that come in pieces, stop anywhere, and begin anew. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ResponseAffinity } from '../../../src/api/response-affinity.ts'
import { type Admission, endedAs, type Outcome, type PoolConfig } from '../../../src/core/contract/contract.ts'
import { LeaseKeeper } from '../../../src/origin/lease-keeper.ts'
import { memoryClusters } from '../../../src/platform/node/clusters.ts'
import { PeerBookings } from '../../../src/platform/node/replicas/peer-bookings.ts'
import { Journal } from '../../../src/platform/node/replicas/journal.ts'
import { Lines } from '../../../src/platform/node/replicas/follower.ts'
import { ReplicatedCluster, ReplicatedHoldings } from '../../../src/platform/node/replicas/replicated.ts'
import { readLine } from '../../../src/platform/node/replicas/messages.ts'
import type { Timers, Cluster, Log, PoolName } from '../../../src/ports.ts'
import { admission, engine, engines, pool } from '../../contracts/cluster-fixtures.ts'

const LEASE_MS = 6_000
const WHOLE: PoolName = ['one', 'whole']
const STAGED: PoolName = ['one', 'staged']
const POOLS: Readonly<Record<string, PoolConfig>> = {
  whole: pool({ cluster: 'one', pool: 'whole', leaseMs: LEASE_MS, engines: engines('a', 'b', 'c') }),
  staged: pool({
    cluster: 'one',
    pool: 'staged',
    leaseMs: LEASE_MS,
    split: { mode: 'always', thresholdTokens: 0, fallback: 'decode_only' },
    engines: [
      engine('e', { role: 'encode' }),
      engine('p', { role: 'prefill' }),
      engine('q', { role: 'prefill' }),
      engine('d', { role: 'decode' }),
      engine('f', { role: 'decode' }),
    ],
  }),
}
const nothing = () => undefined
const noLog: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing }
const turn = () => new Promise((resolve) => setImmediate(resolve))
const settled = async () => {
  for (let step = 0; step < 20; step++) await Promise.resolve()
}

class World {
  now = 1_800_000_000_000
  lives = 0
  alarms: Alarm[] = []
  readonly sides: [Side, Side]
  readonly wires: readonly [Wire, Wire]

  constructor() {
    this.sides = [new Side(this), new Side(this)]
    this.wires = [new Wire(this, 0), new Wire(this, 1)]
  }
}

interface Alarm {
  readonly at: number
  readonly ring: () => void
  readonly of: Edge
}

/** What speaks for one stream. */
interface Edge {
  readonly side: Side
  dead: boolean
}

interface Stream {
  readonly edge: Edge
  readonly booking: LeaseKeeper
  readonly admission: Admission
  readonly side: Side
  readonly pool: PoolName
}

/** One process. */
class Side {
  readonly world: World
  readonly id: string
  readonly held = new ResponseAffinity(1000)
  readonly books
  readonly journal: Journal
  readonly adopted: PeerBookings
  readonly clusters: Readonly<Record<string, Cluster>>
  readonly holdings: ReplicatedHoldings
  dead = false

  constructor(world: World) {
    this.world = world
    this.id = `life-${++world.lives}`
    const now = () => world.now
    this.books = memoryClusters({
      source: (_cluster, name) => ({ version: 1, pool: POOLS[name]! }),
      now,
      random: () => 0.5,
    })
    this.books.close()
    this.journal = new Journal({ id: this.id, version: '0', now, held: () => this.held.entries() })
    this.holdings = new ReplicatedHoldings(this.held, this.journal)
    const told = (name: PoolName) =>
      new ReplicatedCluster(this.books.cluster(...name), name, {
        journal: this.journal,
        replicas: () => [],
        explainedElsewhere: async () => null,
        pool: () => POOLS[name[1]]!,
      })
    this.clusters = { whole: told(WHOLE), staged: told(STAGED) }
    this.adopted = new PeerBookings({
      books: (cluster, name) => ({ cluster: this.books.cluster(cluster, name), blockTokens: 64, leaseMs: LEASE_MS }),
      held: this.held,
      heard: (name, signal, at) => this.journal.heard(name, signal, at),
    })
  }

  alarmsOf(of: Edge): Timers {
    const { world } = this
    return {
      set(delayMs, ring) {
        const alarm = { at: world.now + delayMs, ring, of }
        world.alarms.push(alarm)
        return { cancel: () => void (world.alarms = world.alarms.filter((other) => other !== alarm)) }
      },
    }
  }

  async load(): Promise<object> {
    const digests = await Promise.all([WHOLE, STAGED].map((name) => this.books.cluster(...name).digest()))
    return digests.map(({ bookings, engines: all }) => ({
      bookings,
      engines: all.map(({ id, requests, activeBlocks, draining }) => ({ id, requests, activeBlocks, draining })),
    }))
  }

  async queued(): Promise<number> {
    const digests = await Promise.all([WHOLE, STAGED].map((name) => this.books.cluster(...name).digest()))
    return digests
      .flatMap(({ engines: all }) => all)
      .reduce((sum, { queuedPrefillTokens = 0, queuedPrefillS }) => sum + queuedPrefillTokens + queuedPrefillS, 0)
  }
}

/** What the side `to` reads of the other one. */
class Wire {
  readonly #world: World
  readonly #to: 0 | 1
  #pending = Buffer.alloc(0)
  #lines = new Lines()
  #leave: (() => void) | null = null
  #heard: string | null = null

  constructor(world: World, to: 0 | 1) {
    this.#world = world
    this.#to = to
  }

  /** What was under way is lost. */
  cut(): void {
    this.#leave?.()
    this.#leave = null
    this.#pending = Buffer.alloc(0)
  }

  join(): void {
    this.cut()
    this.#lines = new Lines()
    this.#leave = this.#world.sides[1 - this.#to]!.journal.join({
      write: (lines, taken) => {
        this.#pending = Buffer.concat([this.#pending, Buffer.from(lines)])
        taken?.()
      },
    })
  }

  get waiting(): number {
    return this.#pending.length
  }

  take(bytes: number): void {
    const { adopted } = this.#world.sides[this.#to]
    const chunk = this.#pending.subarray(0, bytes)
    this.#pending = this.#pending.subarray(bytes)
    if (chunk.length === 0) return
    for (const line of this.#lines.take(chunk)) {
      for (const word of readLine(line)) {
        if (word[0] !== 'hello') adopted.receive(word)
        else {
          if (this.#heard !== null && this.#heard !== word[1].id) adopted.end('abandoned')
          this.#heard = word[1].id
          adopted.begin()
        }
      }
    }
  }

  /** The reader's process began anew. */
  forget(): void {
    this.cut()
    this.#heard = null
  }
}

const side = fc.constantFrom<0 | 1>(0, 1)
const any = fc.nat(1000)
const act = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('admit' as const),
      side,
      staged: fc.boolean(),
      tokens: fc.nat(3000),
      family: fc.nat(3),
      items: fc.nat(2),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('retry' as const), at: any }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('first' as const), at: any }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('leg' as const),
      at: any,
      part: fc.constantFrom<'encode' | 'prefill'>('encode', 'prefill'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('progress' as const), at: any, blocks: fc.nat(9) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('release' as const),
      at: any,
      result: fc.constantFrom<Outcome['result']>('complete', 'client_gone', 'engine_failed', 'abandoned'),
    }),
  },
  // Nobody speaks of it any more.
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('die' as const), at: any }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.nat(LEASE_MS / 2) }) },
  // All processes slept, and wake up in some order.
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('sleep' as const),
      order: fc.shuffledSubarray([0, 1, 2, 3, 4, 5], { minLength: 6 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('drain' as const),
      side,
      engine: fc.constantFrom('a', 'b', 'c'),
      draining: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('hold' as const), side, id: fc.nat(30) }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('take' as const), side, bytes: fc.nat(4000) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('cut' as const), side }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('join' as const), side }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const), side }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('turn' as const) }) },
)
type Act = typeof act extends fc.Arbitrary<infer One> ? One : never

const HOLDING = { tenant: 't', cluster: 'one', pool: 'whole', engine: 'a', model: 'm' }

class Run {
  readonly world = new World()
  streams: Stream[] = []
  /** Kept, and never lost with the last process that knew it. */
  kept = new Set<string>()

  async do(acts: readonly Act[]): Promise<void> {
    for (const one of acts) {
      await this.#do(one)
      await settled()
    }
  }

  async #do(one: Act): Promise<void> {
    const { world } = this
    switch (one.kind) {
      case 'admit': {
        const blocks = Uint32Array.from({ length: 2 * (one.tokens >> 6) }, (_, at) => at + 1 + 500 * one.family)
        return this.#admit(
          world.sides[one.side],
          one.staged ? STAGED : WHOLE,
          admission({ promptTokens: one.tokens, blocks, encodeItems: one.staged ? one.items : 0 }),
        )
      }
      case 'retry': {
        const stream = this.#stream(one.at)
        if (stream === null) return
        this.#end(stream, { ...endedAs('engine_failed'), failure: 'connect' })
        return this.#admit(stream.side, stream.pool, { ...stream.admission, attempt: stream.admission.attempt + 1 })
      }
      case 'first':
        return this.#stream(one.at)?.booking.firstToken({ ttft: 10 })
      case 'leg':
        return this.#stream(one.at)?.booking.legDone(one.part, {})
      case 'progress':
        return this.#stream(one.at)?.booking.progress(one.blocks)
      case 'release': {
        const stream = this.#stream(one.at)
        return stream === null ? undefined : this.#end(stream, endedAs(one.result))
      }
      case 'die': {
        const stream = this.#stream(one.at)
        if (stream === null) return
        stream.edge.dead = true
        this.streams = this.streams.filter((other) => other !== stream)
        return
      }
      case 'pass':
        world.now += one.ms
        return this.#wake([0, 1, 2, 3, 4, 5])
      case 'sleep':
        world.now += LEASE_MS + 1
        return this.#wake(one.order)
      case 'drain':
        return world.sides[one.side].clusters['whole']!.observe([
          { kind: 'drain', engine: one.engine, draining: one.draining },
        ])
      case 'hold':
        world.sides[one.side].holdings.keep(`resp_${one.id}`, HOLDING)
        return void this.kept.add(`resp_${one.id}`)
      case 'take':
        return world.wires[one.side].take(one.bytes)
      case 'cut':
        return world.wires[one.side].cut()
      case 'join':
        return world.wires[one.side].join()
      case 'restart':
        return this.#restart(one.side)
      case 'turn':
        return void (await turn())
    }
  }

  /** A stream that lives; null: there is none. */
  #stream(at: number): Stream | null {
    return this.streams.length === 0 ? null : this.streams[at % this.streams.length]!
  }

  async #admit(by: Side, name: PoolName, asked: Admission): Promise<void> {
    const cluster = by.clusters[name[1]]!
    const admitted = await cluster.admit(asked)
    // All engines drained, or no retries left.
    if ('refusal' in admitted) return
    const { lease, placement } = admitted
    const edge = { side: by, dead: false }
    const booking = new LeaseKeeper({
      cluster,
      lease,
      admission: asked,
      placement,
      leaseMs: LEASE_MS,
      log: noLog,
      alarms: by.alarmsOf(edge),
    })
    this.streams.push({ edge, booking, admission: asked, side: by, pool: name })
  }

  #end(stream: Stream, outcome: Outcome): void {
    this.streams = this.streams.filter((other) => other !== stream)
    void stream.booking.release(outcome)
  }

  /** Timers of both processes: each side's alarms, its books' sweep, and its journal's beat. */
  async #wake(order: readonly number[]): Promise<void> {
    const { world } = this
    for (const step of order) {
      const woken = world.sides[(step % 2) as 0 | 1]
      if (step < 2) woken.books.sweep()
      else if (step < 4) woken.journal.beat()
      else this.#ring(woken)
      await settled()
    }
  }

  #ring(on: Side): void {
    const { world } = this
    const due = world.alarms.filter(({ of, at }) => of.side === on && at <= world.now)
    world.alarms = world.alarms.filter((alarm) => !due.includes(alarm))
    for (const { of, ring } of due) if (!of.dead && !on.dead) ring()
  }

  #restart(at: 0 | 1): void {
    const { world } = this
    const old = world.sides[at]
    old.dead = true
    this.streams = this.streams.filter((stream) => stream.side !== old)
    world.sides[at] = new Side(world)
    world.wires[at].forget()
    world.wires[1 - at]!.cut()
    const left = world.sides[1 - at]!
    this.kept = new Set([...this.kept].filter((id) => left.held.find(id, HOLDING.tenant) !== null))
  }

  end(): void {
    for (const stream of this.streams) this.#end(stream, endedAs('complete'))
  }

  /** Everybody hears everything. */
  async quiet(): Promise<void> {
    const { world } = this
    // Two leases: whatever nobody speaks of has lapsed.
    for (let round = 0; round < 4; round++) {
      for (const wire of world.wires) wire.join()
      await this.#receive()
      world.now += LEASE_MS / 2 - 1
      await this.#wake([4, 5, 0, 1, 2, 3])
      await this.#receive()
      for (const { adopted } of world.sides) await adopted.renew()
    }
    for (const wire of world.wires) wire.join()
    await this.#receive()
  }

  async #receive(): Promise<void> {
    for (let idle = 0; idle < 4; idle++) {
      await turn()
      for (const wire of this.world.wires) {
        if (wire.waiting > 0) idle = 0
        wire.take(Infinity)
      }
      await settled()
    }
  }
}

describe('two replicas that hear each other in pieces', () => {
  it(
    'say the same of what lives once they have heard everything, and keep nothing of what has ended',
    () =>
      fc.assert(
        fc.asyncProperty(fc.array(act, { minLength: 10, maxLength: 60 }), async (acts) => {
          const run = new Run()
          await run.do(acts)
          await run.quiet()
          const [one, other] = run.world.sides
          const live = run.streams.length
          expect(await other.load()).toEqual(await one.load())
          expect([one, other].map(({ journal, adopted }) => journal.size + adopted.size)).toEqual([live, live])
          expect(one.journal.size).toBe(other.adopted.size)
          for (const { held } of [one, other])
            for (const id of run.kept) expect(held.find(id, HOLDING.tenant)).not.toBeNull()
          run.end()
          await run.quiet()
          for (const { journal, adopted } of [one, other]) expect([journal.size, adopted.size]).toEqual([0, 0])
          for (const replica of [one, other]) {
            expect(JSON.stringify(await replica.load())).not.toMatch(/"(?:bookings|requests|activeBlocks)":[^0]/)
            expect(await replica.queued()).toBe(0)
          }
        }),
        { numRuns: 150 },
      ),
    60_000,
  )

  it('hold what an operator said last, though it was said to the one while the other could not hear it', async () => {
    const run = new Run()
    const { world } = run
    const drain = (at: 0 | 1, draining: boolean) => run.do([{ kind: 'drain', side: at, engine: 'a', draining }])
    const isDrained = async () =>
      Promise.all(world.sides.map(async (one) => JSON.stringify(await one.load()).includes('"draining":true')))
    await drain(0, true)
    await run.quiet()
    expect(await isDrained()).toEqual([true, true])
    for (const wire of world.wires) wire.cut()
    await drain(0, false)
    await run.quiet()
    expect(await isDrained()).toEqual([false, false])
    for (const wire of world.wires) wire.cut()
    world.now += 1
    await drain(0, true)
    // Its clock is behind.
    world.now -= 5_000
    await run.quiet()
    await drain(1, false)
    await run.quiet()
    expect(await isDrained()).toEqual([false, false])
  })

  it('learn nothing from a late word about what has ended', async () => {
    const {
      sides: [one, other],
      wires: [, wire],
    } = new World()
    wire.join()
    const asked = admission()
    const cluster = one.clusters['whole']!
    const admitted = await cluster.admit(asked)
    if ('refusal' in admitted) throw new Error('refused')
    await admitted.lease.release(endedAs('complete'))
    await cluster.resume({ admission: asked, placement: admitted.placement, firstTokenSeen: true, outputBlocks: 3 })
    await turn()
    wire.take(Infinity)
    expect([one.journal.size, other.adopted.size]).toEqual([0, 0])
  })

  it('renew what ends meanwhile without asking for everything anew', async () => {
    const {
      sides: [one, { adopted }],
      wires: [, wire],
    } = new World()
    wire.join()
    const admitted = await one.clusters['whole']!.admit(admission())
    if ('refusal' in admitted) throw new Error('refused')
    await turn()
    wire.take(Infinity)
    await settled()
    await admitted.lease.release(endedAs('complete'))
    await turn()
    const renewed = adopted.renew()
    // The rest of what one read from the socket brought: no promise has been kept since.
    wire.take(Infinity)
    expect(adopted.size).toBe(0)
    expect(await renewed).toBe(true)
  })

  it('ask for everything anew once when a lease has passed, however late they are told', async () => {
    const {
      sides: [one, other],
      wires: [, wire],
    } = new World()
    wire.join()
    await one.clusters['whole']!.admit(admission())
    await turn()
    wire.take(Infinity)
    await settled()
    one.world.now += LEASE_MS + 1
    other.books.sweep()
    expect(await other.adopted.renew()).toBe(false)
    wire.join()
    // Who it is, and nothing else yet.
    wire.take(Infinity)
    expect(await other.adopted.renew()).toBe(true)
    await turn()
    wire.take(Infinity)
    expect(await other.adopted.renew()).toBe(true)
    expect(other.adopted.size).toBe(1)
  })

  it('tell of as many bookings as there are, a piece at a time, and begin to tell of new ones before that', async () => {
    const {
      sides: [one],
    } = new World()
    const blocks = new Uint32Array(20_000)
    for (let count = 0; count < 50; count++)
      await one.clusters['whole']!.admit(admission({ promptTokens: 640_000, blocks }))
    const lines: string[] = []
    const taken: (() => void)[] = []
    one.journal.join({ write: (line, on) => void (lines.push(line), on && taken.push(on)) })
    await one.clusters['whole']!.admit(admission({ id: 'new' }))
    while (taken.length > 0) {
      taken.pop()!()
      await turn()
    }
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(300_000)
    expect(lines.findIndex((line) => line.includes('"new"'))).toBeLessThan(5)
    expect(lines.join('').match(/\["book"/g)).toHaveLength(51)
    expect(lines.at(-1)).toContain('["all"]')
  })
})
