import { expect, it } from 'vitest'
import { memoryTtft } from '../../src/platform/node/ttft.ts'
import { partial, record, ttftContract } from '../contracts/ttft.ts'

const LIMITS = { maxRequests: 1000, maxBytes: 10_000_000, ttlMs: 600_000 }

ttftContract('memoryTtft', async () => ({ ttft: memoryTtft({ store: LIMITS }), evict: async () => {}, close: async () => {} }))

it('keeps no report while reports are off, yet counts for the metrics', async () => {
  const ttft = memoryTtft({ store: null })
  expect(await ttft.report([partial({ role: 'pd', request_id: 'a', prefill_queue_time_ms: 1 })])).toEqual([])
  await ttft.flush({ source: 'g', epoch: 1, seq: 1, records: [record()] })
  expect(await ttft.find('gw-1')).toBeNull()
  expect((await ttft.rollups())[0]?.counts['requests:complete']).toBe(1)
})
