import { expect, it } from 'vitest'
import { LoadStats } from '../../../src/core/pool/load-stats.ts'
import type { BookingRef, LegRole } from '../../../src/core/pool/signal-provider.ts'
import { EngineState } from '../../../src/core/pool/engine-state.ts'
import type { EngineSignals } from '../../../src/core/pool/engine-signals.ts'
import { admission, engine, pool, stats } from '../../contracts/cluster-fixtures.ts'

const a = new EngineState(0, engine('a', { rttMs: 30 }))
const b = new EngineState(1, engine('b'))

function open(): LoadStats {
  const books = new LoadStats()
  books.configure(pool({ statsIntervalMs: 1_000 }))
  books.engineAdded(a)
  books.engineAdded(b)
  return books
}

function booking(key: string, promptTokens: number, ...parts: LegRole[]): BookingRef {
  return {
    key,
    admission: admission({ promptTokens }),
    legs: parts.map((part, index) => ({ engine: index === 0 ? a : b, part })),
  }
}

function seen(
  books: LoadStats,
  signal: 'requests' | 'reportedQueue' | 'recentWork' | 'rttS',
  now: number,
): { a: EngineSignals[typeof signal]; b: EngineSignals[typeof signal] } {
  books.read(admission(), now, [a, b]).fill(signal)
  return { a: a.signals[signal], b: b.signals[signal] }
}

it('frees a prefill engine at the first token and keeps the decode engine until the end', () => {
  const books = open()
  const split = booking('s', 30, 'prefill', 'decode')
  books.book(split, 0)
  books.firstToken(split)
  expect(seen(books, 'requests', 0)).toEqual({ a: 0, b: 1 })
  books.release(split)
  expect(seen(books, 'requests', 0)).toEqual({ a: 0, b: 0 })
})

it('takes a queue it was told of more than three intervals ago for unknown', () => {
  const books = open()
  expect(seen(books, 'reportedQueue', 0).a).toBeNaN()
  books.observed(a, stats({ running: 4, waiting: 2 }), 1_000)
  expect(seen(books, 'reportedQueue', 4_000).a).toBe(6)
  expect(seen(books, 'reportedQueue', 4_001).a).toBeNaN()
})

it('halves recent work every thirty seconds', () => {
  const books = open()
  books.book(booking('w', 99, 'whole'), 0)
  expect(seen(books, 'recentWork', 0).a).toBe(100)
  expect(seen(books, 'recentWork', 30_000).a).toBe(50)
  books.book(booking('v', 49, 'whole'), 30_000)
  expect(seen(books, 'recentWork', 60_000).a).toBe(50)
})

it('turns milliseconds of configuration into seconds', () => {
  expect(seen(open(), 'rttS', 0).a).toBe(0.03)
})
