import { expect, it } from 'vitest'
import { BatchExporter } from '../../src/telemetry/batch-exporter.ts'
import { ExportError } from '../../src/telemetry/export-error.ts'

const unwanted = new ExportError('unwanted', { status: 400, isPermanent: true })

function open(answers: readonly ('taken' | 'refused' | 'unwanted')[] = []) {
  const sent: { readonly items: readonly number[]; readonly seq: number }[] = []
  const works: Promise<unknown>[] = []
  let time = 0
  const left = [...answers]
  const exporter = new BatchExporter<number>({
    delayMs: 0,
    now: () => time,
    failed: () => {},
    async send(items, seq) {
      sent.push({ items: [...items], seq })
      const answer = left.shift() ?? 'taken'
      if (answer !== 'taken') throw answer === 'unwanted' ? unwanted : new Error(answer)
    },
  })
  const scope = { background: (work: Promise<unknown>) => void works.push(work) }
  return { exporter, sent, works, scope, pass: (ms: number) => (time += ms) }
}

it('items of one turn are sent in one batch, in the background of the first request', async () => {
  const { exporter, sent, works, scope } = open()
  for (const item of [1, 2, 3]) exporter.add(item, scope)
  expect(sent).toEqual([])
  expect(works).toHaveLength(1)
  await Promise.all(works)
  expect(sent).toEqual([{ items: [1, 2, 3], seq: 1 }])
})

it('a failed batch is repeated with its number before newer ones', async () => {
  const { exporter, sent, scope } = open(['refused'])
  exporter.add(1, scope)
  await exporter.flush()
  exporter.add(2, scope)
  await exporter.flush()
  expect(sent).toEqual([
    { items: [1], seq: 1 },
    { items: [1], seq: 1 },
    { items: [2], seq: 2 },
  ])
})

it('a batch is dropped after several attempts, and its items are counted', async () => {
  const { exporter, sent, scope } = open(Array.from({ length: 5 }, () => 'refused' as const))
  exporter.add(1, scope)
  for (let tries = 0; tries < 5; tries++) await exporter.flush()
  expect(exporter.dropped).toBe(1)
  exporter.add(2, scope)
  await exporter.flush()
  expect(sent.at(-1)).toEqual({ items: [2], seq: 2 })
})

it('a batch with a permanent error is not repeated, and its items are counted', async () => {
  const { exporter, sent, scope } = open(['unwanted'])
  for (const item of [1, 2]) exporter.add(item, scope)
  await exporter.flush()
  exporter.add(3, scope)
  await exporter.flush()
  expect(sent).toEqual([
    { items: [1, 2], seq: 1 },
    { items: [3], seq: 2 },
  ])
  expect(exporter.dropped).toBe(2)
})

it('the queue is bounded, and the oldest items are dropped', async () => {
  const { exporter, sent, scope } = open()
  for (let item = 0; item < 10_003; item++) exporter.add(item, scope)
  expect(exporter.dropped).toBe(3)
  await exporter.flush()
  expect(sent.flatMap(({ items }) => items)).toEqual(Array.from({ length: 10_000 }, (_, at) => at + 3))
  expect(Math.max(...sent.map(({ items }) => items.length))).toBeLessThanOrEqual(500)
})

it('a sender that never settles is replaced after ten seconds', async () => {
  const sent: number[] = []
  let time = 0
  const exporter = new BatchExporter<number>({
    delayMs: 0,
    now: () => time,
    failed: () => {},
    send: (_, seq) => (sent.push(seq) === 1 ? new Promise(() => {}) : Promise.resolve()),
  })
  exporter.add(1, { background: () => {} })
  void exporter.flush()
  await exporter.flush()
  expect(sent).toEqual([1])
  time += 10_000
  await exporter.flush()
  expect(sent).toEqual([1, 1])
})
