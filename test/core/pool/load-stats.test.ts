import { expect, it } from 'vitest'
import { LoadStats } from '../../../src/core/pool/load-stats.ts'
import type { LegRole } from '../../../src/core/contract/legs.ts'
import type { BookingRef } from '../../../src/core/pool/leg.ts'
import { EngineState } from '../../../src/core/pool/engine-state.ts'
import type { EngineSignals } from '../../../src/core/pool/engine-signals.ts'
import { admission, engine, pool, stats } from '../../contracts/cluster-fixtures.ts'

const a = new EngineState(0, engine('a', { rttMs: 30 }))
const b = new EngineState(1, engine('b'))

function open(): LoadStats {
  const load = new LoadStats()
  load.configure(pool({ statsIntervalMs: 1_000 }))
  load.engineAdded(a)
  load.engineAdded(b)
  return load
}

function booking(key: string, promptTokens: number, ...parts: LegRole[]): BookingRef {
  return {
    key,
    admission: admission({ promptTokens }),
    legs: parts.map((part, index) => ({ engine: index === 0 ? a : b, part })),
  }
}

function seen(
  load: LoadStats,
  signal: 'requests' | 'reportedQueue' | 'recentWork' | 'recentNewTokens' | 'rttS',
  now: number,
): { a: EngineSignals[typeof signal]; b: EngineSignals[typeof signal] } {
  load.writeSignals([a, b], now)
  return { a: a.signals[signal], b: b.signals[signal] }
}

it('frees a prefill engine at the first token and keeps the decode engine until the end', () => {
  const load = open()
  const split = booking('s', 30, 'prefill', 'decode')
  load.book(split, 0)
  load.firstToken(split)
  expect(seen(load, 'requests', 0)).toEqual({ a: 0, b: 1 })
  load.release(split)
  expect(seen(load, 'requests', 0)).toEqual({ a: 0, b: 0 })
})

it('treats a queue scraped more than three intervals ago as unknown', () => {
  const load = open()
  expect(seen(load, 'reportedQueue', 0).a).toBeNaN()
  load.observed(a, stats({ running: 4, waiting: 2 }), 1_000)
  expect(seen(load, 'reportedQueue', 4_000).a).toBe(6)
  expect(seen(load, 'reportedQueue', 4_001).a).toBeNaN()
})

it('halves recent work every thirty seconds', () => {
  const load = open()
  load.book(booking('w', 99, 'whole'), 0)
  expect(seen(load, 'recentWork', 0).a).toBe(100)
  expect(seen(load, 'recentWork', 30_000).a).toBe(50)
  load.book(booking('v', 49, 'whole'), 30_000)
  expect(seen(load, 'recentWork', 60_000).a).toBe(50)
})

it('counts the uncached tokens of recent prompts', () => {
  const load = open()
  load.book(booking('w', 99, 'whole'), 0, { cached: () => ({ total: 80 }) })
  expect(seen(load, 'recentNewTokens', 0).a).toBe(20)
  expect(seen(load, 'recentNewTokens', 30_000).a).toBe(10)
  expect(seen(load, 'recentWork', 0).a).toBe(100)
})

it('turns milliseconds of configuration into seconds', () => {
  expect(seen(open(), 'rttS', 0).a).toBe(0.03)
})
