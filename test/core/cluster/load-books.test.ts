import { expect, it } from 'vitest'
import { LoadBooks } from '../../../src/core/cluster/load-books.ts'
import type { Booked, Part } from '../../../src/core/cluster/books.ts'
import { admission, engine, pool, stats } from '../../contracts/cluster-fixtures.ts'

const a = { slot: 0, spec: engine('a', { rttMs: 30 }) }
const b = { slot: 1, spec: engine('b') }

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

const read = (books: LoadBooks, now: number) => books.read(admission(), now)

it('frees a prefill engine at the first token and keeps the decode engine until the end', () => {
  const books = open()
  const split = booking('s', 30, 'prefill', 'decode')
  books.book(split, 0)
  books.firstToken(split)
  expect([read(books, 0).signal('requests', a), read(books, 0).signal('requests', b)]).toEqual([0, 1])
  books.release(split)
  expect([read(books, 0).signal('requests', a), read(books, 0).signal('requests', b)]).toEqual([0, 0])
})

it('takes a queue it was told of more than three intervals ago for unknown', () => {
  const books = open()
  expect(read(books, 0).signal('reportedQueue', a)).toBeUndefined()
  books.observed(a, stats({ running: 4, waiting: 2 }), 1_000)
  expect(read(books, 4_000).signal('reportedQueue', a)).toBe(6)
  expect(read(books, 4_001).signal('reportedQueue', a)).toBeUndefined()
})

it('halves recent work every thirty seconds', () => {
  const books = open()
  books.book(booking('w', 99, 'whole'), 0)
  expect(read(books, 0).signal('recentWork', a)).toBe(100)
  expect(read(books, 30_000).signal('recentWork', a)).toBe(50)
  books.book(booking('v', 49, 'whole'), 30_000)
  expect(read(books, 60_000).signal('recentWork', a)).toBe(50)
})

it('turns milliseconds of configuration into seconds', () => {
  expect(read(open(), 0).signal('rttS', a)).toBe(0.03)
})

it('answers for nothing it did not promise', () => {
  const books = open()
  expect(read(books, 0).signal('law', a)).toBeUndefined()
})
