import { expect, it } from 'vitest'
import { memoryTtft } from '../../../src/platform/node/memory-ttft.ts'
import { partial, record, ttftContract } from '../../contracts/ttft.ts'

const LIMITS = { maxRequests: 1000, maxBytes: 10_000_000, ttlMs: 600_000 }

ttftContract('memoryTtft', async () => ({
  ttft: memoryTtft({ store: LIMITS }),
  evict: async () => {},
  close: async () => {},
}))

it('a gateway keeps no report while reports are off, yet counts for the metrics', async () => {
  const ttft = memoryTtft({ store: null })
  expect(await ttft.report([partial({ role: 'pd', request_id: 'a', prefill_queue_time_ms: 1 })])).toEqual([])
  await ttft.flush({ source: 'g', epoch: 1, seq: 1, records: [record()] })
  expect(await ttft.find('gw-1')).toBeNull()
  expect((await ttft.rollups())[0]?.counts['requests:complete']).toBe(1)
})

it('the metrics count the records at the time of the call, whatever ends meanwhile', async () => {
  const ttft = memoryTtft({ store: null })
  const records = Array.from({ length: 60 }, (_, at) => record({ engine: `engine-${at}`, stages: { ttft: 300 } }))
  await ttft.flush({ source: 'g', epoch: 1, seq: 1, records })
  const counting = ttft.counted!([400, Infinity])
  await ttft.flush({ source: 'g', epoch: 1, seq: 2, records })
  const groups = await counting
  expect(groups).toHaveLength(60)
  for (const { counts, stages, rows } of groups) {
    expect(counts['requests:complete']).toBe(1)
    expect([...rows.subarray(3 * stages.indexOf('ttft'), 3 * stages.indexOf('ttft') + 3)]).toEqual([1, 1, 300])
  }
})
