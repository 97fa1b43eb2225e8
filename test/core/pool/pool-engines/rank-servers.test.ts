import { expect, it } from 'vitest'
import type { RankStats } from '../../../../src/core/contract/engine-signal.ts'
import type { RankSpec } from '../../../../src/core/contract/pool-config.ts'
import { PoolState } from '../../../../src/core/pool/pool-state.ts'
import { admission, engine, failed, outcome, pool, probe, stats } from '../../../kit/pool-fixtures.ts'

/** Reports of ranks that have completed this many requests. */
const reports = (completed: readonly number[], first = 0): RankStats[] =>
  completed.map((value, at) => ({ rank: first + at, stats: stats({ running: at }), completed: value }))

function open(ranks: RankSpec, changes: Parameters<typeof engine>[1] = {}) {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  const settings = pool({ engines: [engine('a', { ranks, ...changes })], policy: { name: 'round_robin', options: {} } })
  state.configure(1, settings, 0)
  let at = 0
  const engines = (now = at) => state.digest(now).engines
  return {
    state,
    settings,
    engines,
    ids: () => engines().map(({ id }) => id),
    probed: (ranksNow: readonly RankStats[], now = (at += 1000)) =>
      state.observe([probe('a', now, { ranks: ranksNow })], now),
    serve: (now = at) => {
      const admitted = state.admit(admission(), now)
      if ('refusal' in admitted || admitted.placement.kind !== 'whole') throw new Error('no placement')
      state.release(admitted.key, outcome(), now)
      return admitted.placement.engine
    },
  }
}

it('a pool with ranks gives each rank the load of its own label', () => {
  const { engines, probed } = open({ count: 2, first: 4 }, { maxInFlight: 3 })
  probed([...reports([0, 0, 0], 3)])
  expect(engines()).toMatchObject([
    { id: 'a/4', server: 'a', stats: { running: 1 } },
    { id: 'a/5', server: 'a', stats: { running: 2 } },
  ])
})

it('a pool with ranks divides the limit of the server among its ranks', () => {
  const { state } = open({ count: 2, first: 0 }, { maxInFlight: 3 })
  const placed = Array.from({ length: 5 }, () => state.admit(admission(), 0))
  expect(placed.map((one) => 'refusal' in one)).toEqual([false, false, false, false, true])
})

it('a pool with ranks applies the first number of ranks at once and each later one after two probes', () => {
  const { ids, probed } = open({ count: null, first: 0 })
  expect(ids()).toEqual(['a'])
  probed(reports([0, 0]))
  expect(ids()).toEqual(['a/0', 'a/1'])
  probed(reports([0, 0, 0, 0]))
  expect(ids()).toHaveLength(2)
  probed([])
  probed(reports([0, 0, 0, 0]))
  expect(ids()).toEqual(['a/0', 'a/1', 'a/2', 'a/3'])
  probed(reports([0, 0]))
  probed(reports([0, 0, 0, 0]))
  expect(ids()).toHaveLength(4)
})

it('a pool with ranks keeps a server with one rank as one engine', () => {
  const { ids, probed } = open({ count: null, first: 0 })
  probed(reports([0]))
  expect(ids()).toEqual(['a'])
})

it('a pool with ranks drains ranks that join a server that drains', () => {
  const { state, engines, probed } = open({ count: null, first: 0 })
  state.observe([{ kind: 'drain', engine: 'a', draining: true }], 0)
  probed(reports([0, 0]))
  expect(engines()).toMatchObject([{ draining: true }, { draining: true }])
  state.observe([{ kind: 'drain', engine: 'a', draining: false }], 0)
  expect(engines()).toMatchObject([{ draining: false }, { draining: false }])
})

it('a pool with ranks opens the circuits of all ranks at a refused connection, which counts once', () => {
  const { state, engines } = open({ count: 3, first: 0 })
  for (let sent = 0; sent < 3; sent++) {
    const admitted = state.admit(admission({ avoid: ['a/1', 'a/2'] }), 0)
    if ('refusal' in admitted) throw new Error('refused')
    state.release(admitted.key, failed, 0)
  }
  expect(engines()).toMatchObject([
    { circuit: 'open', failuresTotal: 3 },
    { circuit: 'open', failuresTotal: 0 },
    { circuit: 'open', failuresTotal: 0 },
  ])
})

it('a pool with ranks merges the ranks of a server that serves requests at other ranks, and tries again after an hour', () => {
  const { state, ids, engines, probed, serve } = open({ count: null, first: 0 })
  probed(reports([100, 100]))
  probed(reports([100, 100]))
  for (let sent = 0; sent < 30; sent++) serve()
  probed(reports([130, 100]))
  expect(engines()).toMatchObject([{ id: 'a', ignoresRanks: true }])
  expect(state.watch(3000).events).toMatchObject([{ event: 'ranks_ignored', engine: 'a', ranks: 2 }])
  probed(reports([130, 100]))
  expect(ids()).toEqual(['a'])
  const later = 3_700_000
  probed(reports([130, 100]), later)
  probed(reports([130, 100]), later + 1000)
  expect(ids()).toEqual(['a/0', 'a/1'])
})

it.each([
  ['exact', [15, 15]],
  ['with requests of another gateway at one rank', [15, 400]],
  ['after a restart', [-90, -90]],
])('a pool with ranks leaves ranks separate if the counters are %s', (_, more) => {
  const { ids, probed, serve } = open({ count: 2, first: 0 })
  probed(reports([100, 100]))
  for (let sent = 0; sent < 30; sent++) serve()
  probed(reports(more.map((value) => 100 + value)))
  expect(ids()).toEqual(['a/0', 'a/1'])
})

it('a pool with ranks reports that a server has another number of ranks than configured', () => {
  const { state, ids, probed } = open({ count: 2, first: 0 })
  probed(reports([0, 0, 0, 0]))
  expect(state.watch(1000).events).toMatchObject([{ event: 'ranks_differ', engine: 'a', ranks: 4 }])
  expect(ids()).toEqual(['a/0', 'a/1'])
})

it('a pool with ranks keeps found ranks and their bookings over an eviction', () => {
  const { state, settings, probed } = open({ count: null, first: 0 })
  probed(reports([0, 0]))
  const admitted = state.admit(admission(), 1000)
  const restored = new PoolState({ random: () => 0.5, epoch: 'f' })
  const snapshot = state.snapshot(1000)!
  expect(snapshot.pool).toEqual(settings)
  restored.restore(structuredClone(snapshot), 2000)
  expect(restored.digest(2000).engines).toMatchObject([
    { id: 'a/0', requests: 1 },
    { id: 'a/1', requests: 0 },
  ])
  expect('key' in admitted && restored.renew(admitted.key, 2000)).toBe(true)
})
