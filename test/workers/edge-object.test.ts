import { evictDurableObject, runDurableObjectAlarm } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import type { RegionReport, SharedCircuit, SyncBatch } from '../../src/core/edge/sync.ts'
import { readBatch } from '../../src/core/edge/read-batch.ts'
import { emptyDigest } from '../../src/core/pool/empty-digest.ts'

let objects = 0

const open = () => env.EDGE.getByName(`edge:test${(objects += 1)}`)

const AT = 1_000_000
const CLOSED: SharedCircuit = { state: 'closed', leftMs: 0, openings: 0 }
const OPEN: SharedCircuit = { state: 'open', leftMs: 60_000, openings: 1 }

function report(changes: Partial<RegionReport> = {}): RegionReport {
  const digest = emptyDigest({ version: 1, seq: 1, epoch: 'e', at: AT })
  return { cluster: 'paris', pool: 'm', digest, circuit: CLOSED, changes: 0, recent: 0, ...changes }
}

/** Batch of an isolate that has counted `n` requests. */
function batch(isolate: string, n: number, changes: Partial<SyncBatch> = {}): SyncBatch {
  return readBatch({ isolate, n, startedAt: AT, totals: { requests: n }, regions: [report()], ...changes })
}

it('an object that rests has stored the last totals', async () => {
  const object = open()
  for (const n of [1, 2, 3]) await object.sync(batch('a', n))
  expect(await runDurableObjectAlarm(object)).toBe(true)
  await evictDurableObject(object)
  expect(await object.totals(null)).toEqual({ requests: 3 })
})

it('an object that is evicted under load keeps drains and circuits, and its isolates restore the totals', async () => {
  const object = open()
  const before = await object.sync(batch('a', 1))
  await object.sync(batch('b', 4))
  await object.setDraining('paris', 'm', true)
  await object.sync(batch('a', 2, { regions: [report({ circuit: OPEN, changes: 1 })] }))
  await evictDurableObject(object)
  const after = await object.sync(batch('b', 5))
  expect(after.epoch).not.toBe(before.epoch)
  expect(after.regions[0]).toMatchObject({ draining: true, circuit: { state: 'open', openings: 1 } })
  await object.sync(batch('a', 3))
  expect(await object.totals(null)).toEqual({ requests: 8 })
})

/** Ids and names of the first events of a feed. */
async function feed(object: DurableObjectStub, lastEventId: string | null, count: number): Promise<string[]> {
  const headers = lastEventId === null ? {} : { 'last-event-id': lastEventId }
  const response = await object.fetch('https://edge.invalid/live', { headers })
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (text.split('\n\n').length <= count) text += (await reader.read()).value ?? ''
  await reader.cancel()
  const events = text.split('\n\n').slice(0, count)
  return events.map((event) => /^id: (.*)$/m.exec(event)?.[1] ?? 'reset')
}

it('a viewer that returns gets the events that follow its last one, each once', async () => {
  const object = open()
  const [first, second, third] = await feed(object, null, 3)
  expect(await feed(object, first!, 2)).toEqual([second, third])
  const [next] = await feed(object, third!, 1)
  const seqOf = (id: string) => Number(id.split(':')[1])
  expect(seqOf(next!)).toBe(seqOf(third!) + 1)
})

it('a viewer that returns to an evicted object is told to start anew', async () => {
  const object = open()
  const [last] = await feed(object, null, 1)
  await evictDurableObject(object)
  const [reset, view] = await feed(object, last!, 2)
  expect(reset).toBe('reset')
  expect(view!.split(':')[0]).not.toBe(last!.split(':')[0])
})
