import { evictDurableObject, reset, runDurableObjectAlarm, runInDurableObject } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { expect, it } from 'vitest'
import { durableTtft } from '../../src/platform/workers/durable-ttft.ts'
import { partial, record, ttftContract } from '../contracts/ttft.ts'

const LIMITS = { maxRequests: 1000, maxBytes: 10_000_000, ttlMs: 600_000 }
const shards = () => [0, 1, 2, 3].map((shard) => env.TTFT.getByName(`ttft:${shard}`))

ttftContract('durableTtft', async () => ({
  ttft: durableTtft(env.TTFT, LIMITS),
  async evict() {
    for (const stub of shards()) {
      // The alarm writes reports; counts are written before their batch is acknowledged.
      await runDurableObjectAlarm(stub)
      await evictDurableObject(stub)
    }
  },
  close: () => reset(),
}))

it('a TTFT object calls each shard once per batch, however many requests are in it', async () => {
  let calls = 0
  const counting = {
    getByName: (name: string) => {
      calls++
      return env.TTFT.getByName(name)
    },
  } as unknown as typeof env.TTFT
  const records = Array.from({ length: 100 }, (_, at) => record({ id: `r${at}x`, requestId: `r${at}x` }))
  await durableTtft(counting, LIMITS).flush({ source: 'g', epoch: 1, seq: 1, records })
  expect(calls).toBe(4)
  await reset()
})

it('a TTFT object writes reports even if the alarm was lost', async () => {
  const stub = shards()[0]!
  const report = (id: string) =>
    stub.fetch('https://ttft/ttft_report', {
      method: 'POST',
      body: JSON.stringify({ role: 'pd', request_id: id, prefill_queue_time_ms: 3 }),
    })
  await report('a')
  await runInDurableObject(stub, async (object, state) => {
    await state.storage.deleteAlarm()
    Object.assign(object, { now: () => Date.now() + 60_000 })
  })
  await report('b')
  expect(await runInDurableObject(stub, (_object, state) => state.storage.getAlarm())).toBeGreaterThan(Date.now())
  await reset()
})

it('a TTFT object exports only what an eviction cannot revert, because Prometheus would count it twice', async () => {
  const ttft = durableTtft(env.TTFT, LIMITS)
  await ttft.flush({ source: 'g', epoch: 1, seq: 1, records: [record()] })
  await ttft.report([
    partial({ role: 'pd', request_id: 'gw-1', prefill_queue_time_ms: 2, prefill_compute_time_ms: 100 }),
  ])
  const shown = await ttft.rollups()
  expect(Object.keys(shown[0]!.sketches)).toContain('reported_ttft')
  // No alarm has fired, so nothing else was written since.
  for (const stub of shards()) await evictDurableObject(stub)
  expect(await ttft.rollups()).toEqual(shown)
  await reset()
})

it('a TTFT object keeps the counts of a batch if it is evicted before any alarm', async () => {
  const ttft = durableTtft(env.TTFT, LIMITS)
  await ttft.flush({ source: 'g', epoch: 1, seq: 1, records: [record()] })
  // One shard has the record; the others may not be running.
  for (const stub of shards()) await evictDurableObject(stub).catch(() => {})
  expect((await ttft.rollups()).map(({ counts }) => counts['requests:complete'])).toEqual([1])
  await reset()
})

it('a TTFT object deletes reports from its storage when their time is over', async () => {
  const stub = shards()[0]!
  await stub.fetch('https://ttft/ttft_report', {
    method: 'POST',
    body: JSON.stringify({ role: 'pd', request_id: 'a', prefill_queue_time_ms: 3 }),
  })
  const stored = () =>
    runInDurableObject(stub, async (_object, state) => (await state.storage.list({ prefix: 'journal:' })).size)
  await runDurableObjectAlarm(stub)
  expect(await stored()).toBe(1)
  await runInDurableObject(stub, (object) => void Object.assign(object, { now: () => Date.now() + 700_000 }))
  await runDurableObjectAlarm(stub)
  expect(await stored()).toBe(0)
  await reset()
})

it('a TTFT object shows its reports over its own little HTTP', async () => {
  const stub = shards()[0]!
  const post = await stub.fetch('https://ttft/ttft_report', {
    method: 'POST',
    body: JSON.stringify({ role: 'pd', request_id: 'a', prefill_queue_time_ms: 3 }),
  })
  expect(await post.json()).toMatchObject({ request_id: 'a', combined: { prefill_queue_time_ms: 3, ttft_ms: null } })
  const bad = await stub.fetch('https://ttft/ttft_report', { method: 'POST', body: JSON.stringify({ role: 'pd' }) })
  expect([bad.status, await bad.json()]).toEqual([400, { status: 400, detail: 'role or request_id missing' }])
  expect(await (await stub.fetch('https://ttft/ttft_report/chatcmpl-a')).json()).toMatchObject({ request_id: 'a' })
  expect((await stub.fetch('https://ttft/ttft_report/b')).status).toBe(404)
  expect(await (await stub.fetch('https://ttft/held')).json()).toMatchObject({ requests: 1 })
  await reset()
})
