import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { EdgeState } from '../../../src/core/edge/edge-state.ts'
import type { HistoryStep } from '../../../src/core/contract/pool-history.ts'
import type { RegionReport, SharedCircuit, SyncBatch } from '../../../src/core/edge/sync.ts'
import { readBatch } from '../../../src/core/edge/read-batch.ts'
import { RegionLedger } from '../../../src/core/edge/region-ledger.ts'
import { emptyDigest } from '../../../src/core/pool/empty-digest.ts'
import { admission, engines, pool } from '../../kit/pool-fixtures.ts'

const NOW = 1_000_000
const closed: SharedCircuit = { state: 'closed', leftMs: 0, openings: 0 }

function report(changes: Partial<RegionReport> = {}, bookings = 0): RegionReport {
  const digest = { ...emptyDigest({ version: 1, seq: 1, epoch: 'e', at: NOW }), bookings }
  return { cluster: 'paris', pool: 'm', digest, circuit: closed, changes: 0, recent: 0, ...changes }
}

/** Report of an isolate with this many requests in flight. */
function booked(requests: number): RegionReport {
  const ledger = new RegionLedger({ cluster: 'paris', pool: 'm', engine: 'paris', random: () => 0.5, epoch: 'e' })
  ledger.state.configure(1, pool({ engines: engines('paris') }), NOW)
  for (let count = 0; count < requests; count++) ledger.state.admit(admission(), NOW)
  return report({ digest: ledger.report(NOW).digest })
}

function batch(isolate: string, n: number, changes: Partial<SyncBatch> = {}): SyncBatch {
  return readBatch({ isolate, n, startedAt: NOW, totals: { requests: n }, regions: [report()], ...changes })
}

describe('totals of isolates', () => {
  it('totals of isolates are those of the last batches, in any order, repeated or lost', () => {
    const batches = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.integer({ min: 1, max: 20 })), {
      minLength: 1,
    })
    fc.assert(
      fc.property(batches, (sent) => {
        const state = new EdgeState('epoch')
        const last = new Map<string, number>()
        for (const [isolate, n] of sent) {
          state.sync(batch(isolate, n), NOW)
          last.set(isolate, Math.max(n, last.get(isolate) ?? 0))
        }
        const sum = [...last.values()].reduce((a, b) => a + b, 0)
        expect(state.totals(null)).toEqual({ requests: sum })
      }),
    )
  })

  it('totals of isolates stay when an isolate ends, and its requests in flight do not', () => {
    const state = new EdgeState('epoch')
    state.sync(batch('a', 5, { regions: [report({}, 3)] }), NOW)
    expect(state.digest('paris', 'm', NOW)?.bookings).toBe(3)
    state.sync(batch('b', 1), NOW + 700_000)
    expect(state.totals(null)).toEqual({ requests: 6 })
    expect(state.digest('paris', 'm', NOW + 700_000)?.bookings).toBe(0)
    expect(state.status(NOW + 700_000)).toEqual({ isolates: 1, startedAt: NOW })
  })

  it('requests in flight of the shared view are those of all isolates together', () => {
    const state = new EdgeState('epoch')
    const inFlight = () => {
      const digest = state.digest('paris', 'm', NOW)!
      return [digest.bookings, digest.engines[0]!.requests]
    }
    state.sync(batch('a', 1, { regions: [booked(3)] }), NOW)
    state.sync(batch('b', 1, { regions: [booked(4)] }), NOW)
    expect(inFlight()).toEqual([7, 7])
    state.sync(batch('a', 2, { regions: [booked(1)] }), NOW)
    expect(inFlight()).toEqual([5, 5])
  })

  it('a drained region is drained and unavailable in the shared view, and no other region is', () => {
    const state = new EdgeState('epoch')
    const shown = (cluster: string) => {
      const [region] = state.digest(cluster, 'm', NOW)!.engines
      return [region!.draining, region!.available]
    }
    state.sync(batch('a', 1, { regions: [booked(0), { ...booked(0), cluster: 'oslo' }] }), NOW)
    state.drain('paris', 'm', true)
    expect([shown('paris'), shown('oslo')]).toEqual([
      [true, false],
      [false, true],
    ])
    state.drain('paris', 'm', false)
    expect(shown('paris')).toEqual([false, true])
  })

  it('totals of isolates survive a snapshot, as do drains and circuits', () => {
    const state = new EdgeState('one')
    const circuit = { state: 'open', leftMs: 5_000, openings: 1 } as const
    state.sync(batch('a', 4, { regions: [report({ circuit, changes: 1 })] }), NOW)
    state.drain('paris', 'm', true)
    const after = new EdgeState('two')
    after.restore(structuredClone(state.snapshot()))
    expect(after.totals('b')).toEqual({ requests: 4 })
    expect(after.totals('a')).toBeNull()
    const [share] = after.sync(batch('b', 1), NOW).regions
    expect(share).toMatchObject({ draining: true, circuit: { state: 'open', openings: 1 } })
  })
})

describe('shares of a limit', () => {
  it('shares of a limit follow the traffic and add up to 1.1 at most', () => {
    const weights = fc.array(fc.integer({ min: 0, max: 500 }), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(weights, (recents) => {
        const state = new EdgeState('epoch')
        const send = (n: number) =>
          recents.map(
            (recent, at) => state.sync(batch(`i${at}`, n, { regions: [report({ recent })] }), NOW).regions[0]!,
          )
        send(1)
        const shares = send(2).map(({ fraction }) => fraction)
        expect(shares.reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(1.1 + 1e-9)
        for (const share of shares) expect(share).toBeGreaterThan(0)
      }),
    )
  })

  it('shares of a limit count the requests of the other isolates', () => {
    const state = new EdgeState('epoch')
    state.sync(batch('a', 1, { regions: [report({}, 7)] }), NOW)
    expect(state.sync(batch('b', 1), NOW).regions[0]!.elsewhere).toBe(7)
    expect(state.sync(batch('a', 2, { regions: [report({}, 7)] }), NOW).regions[0]!.elsewhere).toBe(0)
    expect(state.sync(batch('b', 2), NOW + 31_000).regions[0]!.elsewhere).toBe(0)
  })
})

describe('circuits of regions', () => {
  const open = { state: 'open', leftMs: 4_000, openings: 1 } as const
  const circuitOf = (state: EdgeState, isolate: string, n: number, now: number) =>
    state.sync(batch(isolate, n), now).regions[0]!.circuit

  it('circuits of regions open for all, and one isolate after the other may try', () => {
    const state = new EdgeState('epoch')
    for (const id of ['a', 'b', 'c']) state.sync(batch(id, 1), NOW)
    const own = { regions: [report({ circuit: open, changes: 1 })] }
    expect(state.sync(batch('b', 2, own), NOW).regions[0]!.circuit?.leftMs).toBe(4_000)
    const lefts = ['a', 'c'].map((id) => circuitOf(state, id, 2, NOW)!.leftMs)
    expect(lefts.sort((x, y) => x - y)).toEqual([5_500, 7_000])
  })

  it('circuits of regions stay open for the others while one isolate tries, and close for all', () => {
    const state = new EdgeState('epoch')
    for (const id of ['a', 'b']) state.sync(batch(id, 1), NOW)
    state.sync(batch('a', 2, { regions: [report({ circuit: open, changes: 1 })] }), NOW)
    const trial = { ...open, state: 'half_open', leftMs: 0 } as const
    state.sync(batch('a', 3, { regions: [report({ circuit: trial, changes: 2 })] }), NOW + 4_000)
    expect(circuitOf(state, 'b', 2, NOW + 4_000)!.leftMs).toBeGreaterThan(9_000)
    state.sync(batch('a', 4, { regions: [report({ changes: 3 })] }), NOW + 5_000)
    expect(circuitOf(state, 'b', 3, NOW + 5_000)).toEqual(closed)
  })

  it('circuits of regions do not change by a batch that repeats an old state', () => {
    const state = new EdgeState('epoch')
    state.sync(batch('a', 1, { regions: [report({ circuit: open, changes: 1 })] }), NOW)
    state.sync(batch('b', 1, { regions: [report({ changes: 1 })] }), NOW)
    expect(circuitOf(state, 'c', 1, NOW)).toEqual(closed)
    state.sync(batch('a', 2, { regions: [report({ circuit: open, changes: 1 })] }), NOW)
    expect(circuitOf(state, 'c', 2, NOW)).toEqual(closed)
  })
})

it('a batch of an older isolate has no effect on what it does not send', () => {
  const state = new EdgeState('epoch')
  const answer = state.sync(readBatch({ isolate: 'old', n: 1, future: true }), NOW)
  expect(answer).toMatchObject({ isolates: 1, regions: [] })
  expect(() => readBatch({ n: 1 })).toThrow(/isolate/)
})

describe('the history of a pool over isolates', () => {
  const step = (at: number, requests: number): HistoryStep => ({
    at,
    requests,
    outputTokens: 0,
    ttft: { zeros: 0, first: 0, counts: [], sum: 0 },
    judged: 0,
    late: 0,
    queueS: null,
    kvUsage: null,
  })
  const sent = (steps: readonly HistoryStep[]) => ({ regions: [report({ history: { steps, slices: [] } })] })
  const requests = (state: EdgeState, now: number) =>
    state
      .summary('paris', 'm', { limit: 0, historySince: 0, now })!
      .history!.steps.map((one) => [one.at - NOW, one.requests])

  it('counts repeated steps once, and keeps those that an isolate no longer sends', () => {
    const state = new EdgeState('epoch')
    state.sync(batch('a', 1, sent([step(NOW, 1)])), NOW)
    state.sync(batch('a', 2, sent([step(NOW, 3), step(NOW + 10_000, 2)])), NOW + 10_000)
    state.sync(batch('b', 1, sent([step(NOW + 10_000, 4)])), NOW + 10_000)
    state.sync(batch('a', 1, sent([step(NOW, 1)])), NOW + 11_000)
    expect(requests(state, NOW + 11_000)).toEqual([
      [0, 3],
      [10_000, 6],
    ])
    state.sync(batch('a', 3, sent([step(NOW + 90_000, 5)])), NOW + 90_000)
    expect(requests(state, NOW + 90_000)).toEqual([
      [0, 3],
      [10_000, 6],
      [90_000, 5],
    ])
  })

  it('the history of a pool over isolates stays when an isolate ends, and is forgotten after 15 minutes', () => {
    const state = new EdgeState('epoch')
    state.sync(batch('a', 1, sent([step(NOW, 1)])), NOW)
    state.sync(batch('b', 1, sent([])), NOW + 700_000)
    expect(requests(state, NOW + 700_000)).toEqual([[0, 1]])
    state.sync(batch('b', 2, sent([])), NOW + 1_000_000)
    expect(requests(state, NOW + 1_000_000)).toEqual([])
  })

  it('the history of a pool over isolates drops the steps of the totals of ended isolates, whose names would accumulate', () => {
    const state = new EdgeState('epoch')
    state.sync(batch('a', 1, { totals: { requests: 1, ended: { [NOW]: [1, 0, 0] } } }), NOW)
    state.sync(batch('b', 1), NOW + 700_000)
    expect(state.totals(null)).toEqual({ requests: 2 })
  })
})
