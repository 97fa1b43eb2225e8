/** Contract of the Cluster port between two threads, over a real MessagePort. */
import { MessageChannel } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { memoryPools, type MemoryPools } from '../../../src/platform/node/memory-pools.ts'
import { remotePools } from '../../../src/platform/node/threads/remote-pools.ts'
import { ThreadBookings } from '../../../src/platform/node/threads/thread-bookings.ts'
import { RpcChannel } from '../../../src/platform/node/threads/rpc.ts'
import type { PoolMessage } from '../../../src/platform/node/threads/messages.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import { admission, outcome, pool } from '../../kit/pool-fixtures.ts'
import { circuitContract } from '../../contracts/circuits.ts'
import { admitted, clusterContract, requestsOf, type OpenCluster, type Source } from '../../contracts/cluster.ts'
import { quiet } from './quiet.ts'

/** One I/O thread's client of the pool state, without the thread. */
interface Edge {
  readonly cluster: PoolPort
  readonly host: ThreadBookings
  /** Does what happens when the thread ends. */
  end(): void
}

function edgeOf(state: PoolPort, now = () => Date.now()): Edge {
  const { port1, port2 } = new MessageChannel()
  const host = new ThreadBookings(() => state, quiet)
  const here = new RpcChannel<never, PoolMessage>(port1, (word) => host.receive(word))
  const there = new RpcChannel<PoolMessage, never>(port2, () => undefined)
  port1.on('message', (batch: readonly unknown[]) => here.receive(batch))
  port2.on('message', (batch: readonly unknown[]) => there.receive(batch))
  return {
    cluster: remotePools(there, () => 0, now)('paris', 'qwen'),
    host,
    end() {
      there.flush()
      there.close(new Error('gone'))
      here.close(new Error('gone'))
      port1.close()
    },
  }
}

clusterContract('remotePools', open)
circuitContract('remotePools', open)

async function open(source: Source): Promise<OpenCluster> {
  let now = 1_800_000_000_000
  let clusters: MemoryPools
  let edge: Edge
  const start = () => {
    clusters = memoryPools({ source: () => source, now: () => now, random: () => 0.5 })
    edge = edgeOf(clusters.pool('paris', 'qwen'), () => now)
  }
  const end = () => {
    edge.end()
    clusters.close()
  }
  start()
  return {
    get cluster(): PoolPort {
      return edge.cluster
    },
    now: () => now,
    async advance(ms) {
      // Messages without a response are still in transit.
      await edge.cluster.digest()
      now += ms
      clusters.sweep()
    },
    async forget() {
      end()
      start()
    },
    close: async () => end(),
  }
}

describe('two threads with one pool state', () => {
  let clusters: MemoryPools
  let state: PoolPort
  let one: Edge
  let two: Edge

  beforeEach(() => {
    clusters = memoryPools({ source: () => ({ version: 1, pool: pool() }) })
    state = clusters.pool('paris', 'qwen')
    one = edgeOf(state)
    two = edgeOf(state)
  })

  afterEach(() => {
    one.end()
    two.end()
    clusters.close()
  })

  it('see each other, so that they share a fleet evenly', async () => {
    await Promise.all(Array.from({ length: 20 }, (_, at) => admitted((at < 7 ? one : two).cluster.admit(admission()))))
    expect(requestsOf(await state.digest())).toEqual({ a: 10, b: 10 })
  })

  it('two threads with one pool state releases the bookings of a thread that exited, and no others', async () => {
    for (let at = 0; at < 3; at++) await admitted(one.cluster.admit(admission()))
    const { lease } = await admitted(two.cluster.admit(admission()))
    one.end()
    expect(one.host.close()).toBe(3)
    expect((await state.digest()).bookings).toBe(1)
    await lease.renew()
    await lease.release(outcome())
    expect((await two.cluster.digest()).bookings).toBe(0)
  })

  it('two threads with one pool state releases a booking made for a thread that exited during the call', async () => {
    const host = new ThreadBookings(() => state, quiet)
    const answer = host.receive(['admit', 0, admission()])
    expect(host.close()).toBe(0)
    await answer
    expect((await state.digest()).bookings).toBe(0)
  })

  it('two threads with one pool state does not count the exit of a thread against an engine', async () => {
    for (let at = 0; at < 12; at++) {
      const edge = edgeOf(state)
      await admitted(edge.cluster.admit(admission()))
      edge.end()
      edge.host.close()
    }
    const digest = await state.digest()
    expect(digest.engines.map(({ circuit, failuresTotal }) => [circuit, failuresTotal])).toEqual([
      ['closed', 0],
      ['closed', 0],
    ])
  })

  it('two threads with one pool state keeps no state of ended bookings', async () => {
    const leases = await Promise.all(Array.from({ length: 30 }, () => admitted(one.cluster.admit(admission()))))
    expect(one.host.size).toBe(30)
    for (const { lease } of leases) {
      await lease.firstToken({ ttft: 1 })
      await lease.release(outcome())
    }
    await one.cluster.digest()
    expect(one.host.size).toBe(0)
  })

  it('two threads with one pool state sends only the blocks of the message', async () => {
    const words: PoolMessage[] = []
    const spy = { call: async (word: PoolMessage) => (words.push(word), { refusal: null }), notify: () => {} }
    const whole = new Uint32Array(100_000)
    await remotePools(spy, () => 0)('paris', 'qwen').admit(admission({ blocks: whole.subarray(10, 20) }))
    const [word] = words
    expect(word?.[0] === 'admit' && word[2].blocks.buffer.byteLength).toBe(40)
  })
})
