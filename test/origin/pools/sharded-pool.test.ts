import { describe, expect, it } from 'vitest'
import type { Admission } from '../../../src/core/contract/admission.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { LocalPool } from '../../../src/origin/pools/local-pool.ts'
import { poolOfCell, ShardedPool } from '../../../src/origin/pools/sharded-pool.ts'
import { cellOf } from '../../../src/core/routing/cells.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import { admission, engines, outcome, pool } from '../../kit/pool-fixtures.ts'

const SHARDS = 4
const ids = Array.from({ length: 16 }, (_, at) => `e${String(at).padStart(2, '0')}`)
const whole = pool({ engines: engines(...ids) })

/** Four cells with their own states, and the number of `admit` calls at each. */
function open({ dead = -1, full = -1 }: { readonly dead?: number; readonly full?: number } = {}) {
  const calls = Array.from({ length: SHARDS }, () => 0)
  const clock = { now: 1_000_000 }
  const cells = calls.map((_, cell): PoolPort => {
    const state = new PoolState({ random: () => 0.5, epoch: `cell-${cell}` })
    const own = poolOfCell(whole, cell, SHARDS)
    const specs = cell === full ? own.engines.map((spec) => ({ ...spec, maxInFlight: 0 })) : own.engines
    state.configure(1, { ...own, engines: specs }, clock.now)
    const local = new LocalPool(state, () => clock.now)
    return Object.assign(Object.create(local) as LocalPool, {
      local: undefined,
      admit: async (request: Admission) => {
        calls[cell]! += 1
        if (cell === dead) throw new Error('overloaded')
        return LocalPool.prototype.admitNow.call(local, request)
      },
      ...bound(local),
    })
  })
  return { cluster: new ShardedPool({ cells, engines: () => ids, now: () => clock.now }), calls, clock }
}

/** Methods with private fields need their own object. */
function bound(local: LocalPool): Partial<PoolPort> {
  return {
    digest: () => local.digest(),
    observe: (signals) => local.observe(signals),
    resume: (booking) => local.resume(booking),
  }
}

async function engineOf(cluster: ShardedPool, changes: Partial<Admission>): Promise<string> {
  const admitted = await cluster.admit(admission(changes))
  if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
  await admitted.lease.release(outcome())
  return admitted.placement.kind === 'whole' ? admitted.placement.engine : admitted.placement.decode
}

const cellOfEngine = (engine: string) => cellOf(engine, ids, SHARDS)

describe('cells of a pool', () => {
  it('divide its engines evenly', () => {
    const parts = Array.from({ length: SHARDS }, (_, cell) => poolOfCell(whole, cell, SHARDS).engines.length)
    expect(parts).toEqual([4, 4, 4, 4])
  })

  it('cells of a pool keep a session, from every isolate', async () => {
    const [one, other] = [open(), open()]
    for (let session = 0; session < 20; session++) {
      const cells = new Set<number>()
      for (const { cluster, clock } of [one, other, one]) {
        clock.now += 3_000
        cells.add(cellOfEngine(await engineOf(cluster, { session: `s${session}` })))
      }
      expect(cells.size).toBe(1)
    }
  })

  it('cells of a pool share a session that has 60 % of the traffic', async () => {
    const { cluster, calls } = open()
    for (let n = 0; n < 400; n++) await engineOf(cluster, { session: n % 5 < 3 ? 'popular' : `s${n}` })
    expect(Math.max(...calls)).toBeLessThanOrEqual(1.3 * 100)
  })

  it.each([{ dead: 1 }, { full: 1 }])('cells of a pool replace one that %j once', async (fault) => {
    const { cluster, calls } = open(fault)
    for (let n = 0; n < 60; n++) expect(cellOfEngine(await engineOf(cluster, { session: `s${n}` }))).not.toBe(1)
    expect(calls[1]).toBeGreaterThan(0)
    expect(calls.reduce((sum, one) => sum + one, 0)).toBe(60 + calls[1]!)
  })

  it('cells of a pool are not asked without an engine for the request', async () => {
    const { cluster, calls } = open()
    const pinned = ids[5]!
    expect(await engineOf(cluster, { avoid: ids.filter((id) => id !== pinned) })).toBe(pinned)
    expect(calls.map(Boolean)).toEqual(calls.map((_, cell) => cell === cellOfEngine(pinned)))
  })

  it('cells of a pool are one pool for operators', async () => {
    const { cluster } = open()
    const made = admission({ session: 'x' })
    await cluster.admit(made)
    const digest = await cluster.digest()
    expect(digest.engines.map(({ id }) => id).sort()).toEqual(ids)
    expect(digest.bookings).toBe(1)
    expect((await cluster.decisions.explain(made.id))?.id).toBe(made.id)
    expect((await cluster.overview.summary(5)).decisions).toHaveLength(1)
    expect((await cluster.region.digest()).engines).toBe(16)
    await cluster.observe([{ kind: 'drain', engine: ids[7]!, draining: true }])
    const drained = (await cluster.digest()).engines.filter(({ draining }) => draining)
    expect(drained.map(({ id }) => id)).toEqual([ids[7]])
  })
})

it('a divided pool has the errors of the capacities of all its cells', async () => {
  const { cluster } = open()
  const digest = await cluster.digest()
  expect(digest).not.toHaveProperty('capacityError')
  const cells = [
    { minutes: 60, overstated: 3, understated: 1 },
    undefined,
    { minutes: 2, overstated: 0, understated: 1 },
  ]
  const parts = cells.map((capacityError) => ({
    digest: async () => ({ ...digest, ...(capacityError === undefined ? {} : { capacityError }) }),
  }))
  const divided = new ShardedPool({ cells: parts as unknown as PoolPort[], engines: () => ids, now: () => 0 })
  expect(await divided.digest()).toMatchObject({ capacityError: { minutes: 62, overstated: 3, understated: 2 } })
})
