import { describe, expect, it } from 'vitest'
import { LoadStats } from '../../../src/core/pool/load-stats.ts'
import type { LegRole } from '../../../src/core/contract/legs.ts'
import type { BookingRef } from '../../../src/core/pool/booking-ref.ts'
import type { EngineSignals } from '../../../src/core/pool/signals/engine-signals.ts'
import { engineState } from '../../kit/engine-state.ts'
import { admission, engine, pool } from '../../kit/pool-fixtures.ts'

let a = engineState(0, engine('a', { rttMs: 30 }))
let b = engineState(1, engine('b'))

function open(): LoadStats {
  const load = new LoadStats()
  load.configure(pool({ statsIntervalMs: 1_000 }), [])
  a = engineState(0, a.spec, load)
  b = engineState(1, b.spec, load)
  return load
}

function booking(promptTokens: number, ...parts: LegRole[]): BookingRef {
  return {
    bookedAt: 0,
    firstTokenSeen: false,
    legsDone: [],
    admission: admission({ promptTokens }),
    legs: parts.map((part, index) => ({ engine: index === 0 ? a : b, legRole: part })),
  }
}

function seen(
  load: LoadStats,
  signal: 'requests' | 'foreignRequests' | 'recentWork' | 'recentNewTokens' | 'rttS',
  now: number,
): { a: EngineSignals[typeof signal]; b: EngineSignals[typeof signal] } {
  load.writeSignals([a, b], now)
  return { a: a.signals[signal], b: b.signals[signal] }
}

it('the load of a pool frees a prefill engine at the first token and keeps the decode engine until the end', () => {
  const load = open()
  const split = booking(30, 'prefill', 'decode')
  load.addBooking(split, 0)
  load.firstToken(split, 0)
  expect(seen(load, 'requests', 0)).toEqual({ a: 0, b: 1 })
  load.release({ ...split, firstTokenSeen: true }, 0)
  expect(seen(load, 'requests', 0)).toEqual({ a: 0, b: 0 })
})

describe('load from other sources', () => {
  const OWN = { activeBlocks: 0, queued: 0, usualPrefillS: 0.5, prefilledS: 0 }
  const IDLE = { prefilledS: () => 0 }
  const report = (running: number, waiting: number) => ({ running, waiting, usedBlocks: null })

  it('load from other sources is what an engine reports beyond the bookings, for three intervals', () => {
    const load = open()
    expect(seen(load, 'foreignRequests', 0).a).toBe(0)
    load.addBooking(booking(99, 'whole'), 0)
    load.observed(a, report(4, 2), { ...OWN, at: 1_000 })
    expect(seen(load, 'foreignRequests', 4_000).a).toBe(5)
    expect(load.foreign(a, 1_000, IDLE).waiting).toBe(2)
    expect(seen(load, 'foreignRequests', 4_001).a).toBe(0)
    expect(load.foreign(a, 4_001, IDLE)).toEqual({ requests: 0, waiting: 0, queuedS: 0, blocks: 0 })
  })

  it('load from other sources is zero when the engine still reports requests that have just ended, or counts parallel answers', () => {
    const load = open()
    const first = booking(99, 'whole')
    const parallel = { ...first, admission: admission({ sequences: 3 }) }
    load.addBooking(first, 0)
    load.addBooking(parallel, 0)
    load.release(first, 1_000)
    load.observed(a, report(4, 0), { ...OWN, at: 1_100 })
    expect(seen(load, 'foreignRequests', 1_100).a).toBe(0)
    load.release(parallel, 1_200)
    load.observed(a, report(0, 0), { ...OWN, at: 3_000 })
    load.observed(a, report(1, 0), { ...OWN, at: 4_000 })
    expect(seen(load, 'foreignRequests', 4_000).a).toBeGreaterThan(0)
  })

  it('load from other sources has the KV blocks that bookings do not explain', () => {
    const load = open()
    load.observed(a, { running: 2, waiting: 0, usedBlocks: 500 }, { ...OWN, at: 0 })
    expect(load.foreign(a, 0, IDLE).blocks).toBe(500)
    const own = open()
    own.addBooking(booking(99, 'whole'), 0)
    own.observed(a, { running: 1, waiting: 0, usedBlocks: 505 }, { ...OWN, activeBlocks: 500, at: 0 })
    expect(own.foreign(a, 0, IDLE).blocks).toBe(0)
  })
})

it('the load of a pool halves recent work every thirty seconds', () => {
  const load = open()
  load.addBooking(booking(99, 'whole'), 0)
  expect(seen(load, 'recentWork', 0).a).toBe(100)
  expect(seen(load, 'recentWork', 30_000).a).toBe(50)
  load.addBooking(booking(49, 'whole'), 30_000)
  expect(seen(load, 'recentWork', 60_000).a).toBe(50)
})

it('the load of a pool counts the uncached tokens of recent prompts', () => {
  const load = open()
  load.addBooking(booking(99, 'whole'), 0, { cached: () => ({ total: 80 }) })
  expect(seen(load, 'recentNewTokens', 0).a).toBe(20)
  expect(seen(load, 'recentNewTokens', 30_000).a).toBe(10)
  expect(seen(load, 'recentWork', 0).a).toBe(100)
})

it('the load of a pool turns milliseconds of configuration into seconds', () => {
  expect(seen(open(), 'rttS', 0).a).toBe(0.03)
})
