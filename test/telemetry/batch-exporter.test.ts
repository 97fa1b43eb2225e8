import { expect, it } from 'vitest'
import type { Log } from '../../src/ports/log.ts'
import { BatchExporter, PermanentExportError } from '../../src/telemetry/batch-exporter.ts'

const quiet: Log = { debug() {}, info() {}, warn() {}, error() {} }

function open(answers: readonly ('taken' | 'refused' | 'unwanted')[] = []) {
  const sent: { readonly items: readonly number[]; readonly seq: number }[] = []
  const works: Promise<unknown>[] = []
  let time = 0
  const left = [...answers]
  const outbox = new BatchExporter<number>({
    name: 'test',
    delayMs: 0,
    now: () => time,
    log: quiet,
    async send(items, seq) {
      sent.push({ items: [...items], seq })
      const answer = left.shift() ?? 'taken'
      if (answer !== 'taken') throw answer === 'unwanted' ? new PermanentExportError(answer) : new Error(answer)
    },
  })
  const scope = { background: (work: Promise<unknown>) => void works.push(work) }
  return { outbox, sent, works, scope, pass: (ms: number) => (time += ms) }
}

it('items of one turn are sent in one batch, in the background of the first request', async () => {
  const { outbox, sent, works, scope } = open()
  for (const item of [1, 2, 3]) outbox.add(item, scope)
  expect(sent).toEqual([])
  expect(works).toHaveLength(1)
  await Promise.all(works)
  expect(sent).toEqual([{ items: [1, 2, 3], seq: 1 }])
})

it('a failed batch is repeated with its number before newer ones', async () => {
  const { outbox, sent, scope } = open(['refused'])
  outbox.add(1, scope)
  await outbox.flush()
  outbox.add(2, scope)
  await outbox.flush()
  expect(sent).toEqual([
    { items: [1], seq: 1 },
    { items: [1], seq: 1 },
    { items: [2], seq: 2 },
  ])
})

it('a batch is dropped after several attempts, and its items are counted', async () => {
  const { outbox, sent, scope } = open(Array.from({ length: 5 }, () => 'refused' as const))
  outbox.add(1, scope)
  for (let tries = 0; tries < 5; tries++) await outbox.flush()
  expect(outbox.dropped).toBe(1)
  outbox.add(2, scope)
  await outbox.flush()
  expect(sent.at(-1)).toEqual({ items: [2], seq: 2 })
})

it('a batch with a permanent error is not repeated, and its items are counted', async () => {
  const { outbox, sent, scope } = open(['unwanted'])
  for (const item of [1, 2]) outbox.add(item, scope)
  await outbox.flush()
  outbox.add(3, scope)
  await outbox.flush()
  expect(sent).toEqual([
    { items: [1, 2], seq: 1 },
    { items: [3], seq: 2 },
  ])
  expect(outbox.dropped).toBe(2)
})

it('the queue is bounded, and the oldest items are dropped', async () => {
  const { outbox, sent, scope } = open()
  for (let item = 0; item < 10_003; item++) outbox.add(item, scope)
  expect(outbox.dropped).toBe(3)
  await outbox.flush()
  expect(sent.flatMap(({ items }) => items)).toEqual(Array.from({ length: 10_000 }, (_, at) => at + 3))
  expect(Math.max(...sent.map(({ items }) => items.length))).toBeLessThanOrEqual(500)
})

it('a sender that never settles is replaced after ten seconds', async () => {
  const sent: number[] = []
  let time = 0
  const outbox = new BatchExporter<number>({
    name: 'test',
    delayMs: 0,
    now: () => time,
    log: quiet,
    send: (_, seq) => (sent.push(seq) === 1 ? new Promise(() => {}) : Promise.resolve()),
  })
  outbox.add(1, { background: () => {} })
  void outbox.flush()
  await outbox.flush()
  expect(sent).toEqual([1])
  time += 10_000
  await outbox.flush()
  expect(sent).toEqual([1, 1])
})
