/** Replicas over a real server, without HTTP: their ledgers, the bookings they hold, and load from a seed. */
import { readFileSync } from 'node:fs'
import { MemoryResponses } from '../../../src/origin/memory-responses.ts'
import type { ReplicasConfig } from '../../../src/config.ts'
import { endedAs } from '../../../src/core/contract/outcome.ts'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { memoryPools } from '../../../src/platform/node/memory-pools.ts'
import { type Client, createClientOf } from '../../../src/platform/node/replicas/connection.ts'
import { Replicas } from '../../../src/platform/node/replicas/replicas.ts'
import { chance } from '../../../packages/replay/src/replay/chance.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import type { Lease } from '../../../src/ports/lease.ts'
import type { Log } from '../../../src/ports/log.ts'
import { admission, engines, pool } from '../../kit/pool-fixtures.ts'
import { until } from '../../wait.ts'

const LEASE_MS = 60_000
const poolsWith = (changes: Partial<PoolConfig>): readonly PoolConfig[] =>
  ['m', 'n'].map((name) =>
    pool({ cluster: 'one', pool: name, leaseMs: LEASE_MS, engines: engines('a', 'b', 'c'), ...changes }),
  )

interface Stream {
  readonly lease: Lease
  outputBlocks: number
}

export class Member {
  readonly lines: { readonly event: string; readonly fields: Readonly<Record<string, unknown>> }[] = []
  readonly replicas: Replicas
  readonly clusters: ReadonlyMap<string, PoolPort>
  readonly streams: Stream[] = []
  readonly #ledgers
  readonly #clients = new Set<Client>()
  #isPartitioned = false
  #ids = 0

  /**
   * @param changes of its own configuration of the pools
   * @param names its pools
   */
  constructor(
    config: Partial<ReplicasConfig> & Pick<ReplicasConfig, 'url'>,
    changes: Partial<PoolConfig> = {},
    names: readonly string[] = ['m', 'n'],
  ) {
    const pools = poolsWith(changes).filter(({ pool: name }) => names.includes(name))
    const write = (event: string, fields = {}): void => void this.lines.push({ event, fields })
    const log: Log = { debug: write, info: write, warn: write, error: write }
    const source = (_cluster: string, name: string) => {
      const found = pools.find((one) => one.pool === name)
      return found === undefined ? null : { version: 1, pool: found }
    }
    this.#ledgers = memoryPools({ source })
    const given = { cluster: false, prefix: 'test', leaseMs: 1_000, ...config }
    this.replicas = new Replicas(given, {
      log,
      now: Date.now,
      createClient: async (parts) => {
        if (this.#isPartitioned) return createClientOf({ ...parts, url: 'redis://127.0.0.1:1' })
        const client = await createClientOf(parts)
        this.#clients.add(client)
        return client
      },
      pool: (cluster, name) => source(cluster, name)?.pool ?? null,
      storedResponses: new MemoryResponses(100),
    })
    this.clusters = new Map(
      pools.map(({ pool: name }) => [
        name,
        this.replicas.replicatedPool(this.#ledgers.pool('one', name), ['one', name]),
      ]),
    )
  }

  /** Number of other replicas that it follows in all pools. */
  get following(): number {
    return this.replicas.digests.filter(({ state }) => state === 'following').length
  }

  async admit(name = 'm', blocks = new Uint32Array(8)): Promise<Lease> {
    const request = admission({ id: `${this.replicas.id}/${++this.#ids}`, promptTokens: 32 * blocks.length, blocks })
    const admitted = await this.clusters.get(name)!.admit(request)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    this.streams.push({ lease: admitted.lease, outputBlocks: 0 })
    return admitted.lease
  }

  /** Load of each engine in each pool, by its own ledger. */
  async load(): Promise<string> {
    const digests = await Promise.all(Array.from(this.clusters.values(), (cluster) => cluster.digest()))
    return JSON.stringify(
      digests.map(({ bookings, engines: all }) => [
        bookings,
        all.map(({ id, requests, activeBlocks, draining }) => [id, requests, activeBlocks, draining]),
      ]),
    )
  }

  async bookings(): Promise<number> {
    const digests = await Promise.all(Array.from(this.clusters.values(), (cluster) => cluster.digest()))
    return digests.reduce((sum, { bookings }) => sum + bookings, 0)
  }

  /** One random change of its own bookings; about `most` stay open. */
  async step(random: () => number, max = 40): Promise<void> {
    if (random() * max > this.streams.length || this.streams.length === 0) {
      await this.admit(
        random() < 0.7 ? 'm' : 'n',
        Uint32Array.from({ length: 8 }, (_, at) => at + 1),
      )
      return
    }
    const at = Math.floor(random() * this.streams.length)
    const stream = this.streams[at]!
    const { lease } = stream
    const what = random()
    if (what < 0.3) await lease.firstToken({ ttft: 10 })
    else if (what < 0.5) await lease.progress((stream.outputBlocks += 1))
    else {
      this.streams.splice(at, 1)
      await lease.release(endedAs(random() < 0.9 ? 'complete' : 'engine_failed'))
    }
  }

  async finish(): Promise<void> {
    for (const { lease } of this.streams.splice(0)) await lease.release(endedAs('complete'))
  }

  /** Makes the server unreachable for this replica only. */
  partition(): void {
    this.#isPartitioned = true
    for (const client of this.#clients) client.destroy()
    this.#clients.clear()
  }

  reconnect(): void {
    this.#isPartitioned = false
  }

  logged(event: string): readonly Readonly<Record<string, unknown>>[] {
    return this.lines.filter((line) => line.event === event).map(({ fields }) => fields)
  }

  async close(): Promise<void> {
    await this.replicas.close()
    this.#ledgers.close()
  }
}

/** Steps of all members until the returned function is called, which resolves when the last step is done. */
export function loaded(members: readonly Member[], seed: number): () => Promise<void> {
  const random = chance(seed)
  const stopping = new AbortController()
  const done = (async () => {
    while (!stopping.signal.aborted) {
      for (const member of members) await member.step(random)
      await new Promise((resolve) => setImmediate(resolve))
    }
  })()
  return async () => {
    stopping.abort()
    await done
  }
}

/**
 * Resolves when every ledger has the bookings of all members, engine by engine; fails with the difference otherwise.
 */
export async function converged(members: readonly Member[]): Promise<void> {
  const live = members.reduce((sum, { streams }) => sum + streams.length, 0)
  let loads: string[] = []
  let counts: number[] = []
  await until(async () => {
    loads = await Promise.all(members.map((member) => member.load()))
    counts = await Promise.all(members.map((member) => member.bookings()))
    return (
      loads.every((load) => load === loads[0]) &&
      counts.every((count) => count === live) &&
      members.every(({ following }) => following === members.length - 1)
    )
  }, 20).catch((error: Error) => {
    throw new Error(
      `${error.message}\n${members.map(({ following }) => following).join()} followed; ${live} open; the ledgers have ${counts.join(', ')}\n${loads.join('\n')}`,
    )
  })
}

/** The least rights in docs/replicas.md, of a user with this password. */
export const documentedRights = (password: string): readonly string[] =>
  /ACL SETUSER firstlight (.*)/
    .exec(readFileSync(new URL('../../../docs/replicas.md', import.meta.url), 'utf8'))![1]!
    .replaceAll('PASSWORD', password)
    .split(' ')
