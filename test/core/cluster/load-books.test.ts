import { expect, it } from 'vitest'
import { LoadBooks } from '../../../src/core/cluster/load-books.ts'
import type { Booked, Part } from '../../../src/core/cluster/books.ts'
import { EngineRecord } from '../../../src/core/cluster/engine-record.ts'
import type { Seat } from '../../../src/core/cluster/seat.ts'
import { admission, engine, pool, stats } from '../../contracts/cluster-fixtures.ts'

const a = new EngineRecord(0, engine('a', { rttMs: 30 }))
const b = new EngineRecord(1, engine('b'))

function open(): LoadBooks {
  const books = new LoadBooks()
  books.configure(pool({ statsIntervalMs: 1_000 }))
  books.engineAdded(a)
  books.engineAdded(b)
  return books
}

function booking(key: string, promptTokens: number, ...parts: Part[]): Booked {
  return { key, admission: admission({ promptTokens }), legs: parts.map((part, index) => ({ engine: index === 0 ? a : b, part })) }
}

function seen(books: LoadBooks, signal: 'requests' | 'reportedQueue' | 'recentWork' | 'rttS', now: number): { a: Seat[typeof signal]; b: Seat[typeof signal] } {
  books.read(admission(), now, [a, b]).fill(signal)
  return { a: a.seat[signal], b: b.seat[signal] }
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
