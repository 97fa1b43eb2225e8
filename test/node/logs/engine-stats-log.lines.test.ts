import { expect, it } from 'vitest'
import type { PoolDigest } from '../../../src/core/contract/pool-digest.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import type { Log } from '../../../src/ports/log.ts'
import { EngineStatsLog } from '../../../src/platform/node/engine-stats-log.ts'

function open(totals: readonly (number | null)[]) {
  const lines: Record<string, unknown>[] = []
  const write = (event: string, fields: object = {}) => void lines.push({ event, ...fields })
  const log: Log = { debug: write, info: write, warn: write, error: write }
  let at = 0
  const next = totals[Symbol.iterator]()
  const digest = async () => {
    const { value } = next.next() as { value: number | null }
    if (value === null) throw new Error('dark')
    const engine = {
      id: 'a',
      requests: 2,
      activeBlocks: 7,
      queuedPrefillS: 0.1234567,
      hitRate: 0.5,
      ttftMs: 80.00004,
      requestsTotal: value,
      available: true,
      circuit: 'closed',
    }
    return { cluster: 'c', pool: 'm', engines: [engine] } as unknown as PoolDigest
  }
  const stats = new EngineStatsLog({ pool: () => ({ digest }) as unknown as PoolPort, now: () => (at += 2_000), log })
  stats.pools = [{ cluster: 'c', pool: 'm' }]
  return { stats, lines }
}

it('requests per second appear from the second line on, and restart with the engine', async () => {
  const { stats, lines } = open([10, 30, 5, 6])
  for (let times = 0; times < 4; times++) await stats.write()
  expect(lines.map(({ qps }) => qps)).toEqual([null, 10, null, 0.5])
  expect(lines[0]).toMatchObject({
    event: 'engine_stats',
    cluster: 'c',
    model: 'm',
    engine: 'a',
    running: 2,
    active_blocks: 7,
    queued_prefill_s: 0.123,
    hit_rate: 0.5,
    ttft_ms: 80,
    circuit: 'closed',
  })
})

it('a pool that does not respond is logged, and later lines continue', async () => {
  const { stats, lines } = open([null, 4])
  await stats.write()
  await stats.write()
  expect(lines.map(({ event }) => event)).toEqual(['engine_stats_missing', 'engine_stats'])
})
