import { gzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { readRoute } from '../../src/origin/engine-route.ts'
import { socketOrigin } from '../../src/platform/node/http1/origin.ts'
import { FakeEngine } from '../kit/fake-engine.ts'

const METRICS = 'vllm:num_requests_running 7\n'.repeat(100)

async function read(encoding: string, body: Uint8Array, limitBytes?: number) {
  await using engine = await FakeEngine.open({ '*': { headers: { 'content-encoding': encoding }, body } })
  const origin = socketOrigin()
  const target = { id: 'a', url: engine.url, headers: [], binding: null }
  try {
    return await readRoute(origin, target, '/metrics', limitBytes === undefined ? {} : { limitBytes })
  } finally {
    origin.close()
  }
}

it.each(['gzip', 'x-gzip'])('S20: metrics that a proxy compresses with %s are read', async (encoding) => {
  expect((await read(encoding, gzipSync(METRICS))).text).toBe(METRICS)
})

it('compressed bytes that are broken, or longer than the limit when they are decoded, are refused', async () => {
  await expect(read('gzip', gzipSync(METRICS).subarray(0, 30))).rejects.toMatchObject({ failure: 'malformed' })
  await expect(read('gzip', gzipSync(METRICS), 1_000)).rejects.toMatchObject({ failure: 'malformed' })
})
