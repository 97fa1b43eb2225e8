/** Statistics lines while engines come and go. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { parseConfig } from '../../../src/config/parse.ts'
import type { Config } from '../../../src/config.ts'
import type { PoolPort } from '../../../src/ports/pool.ts'
import { logEngineStats } from '../../../src/platform/node/engine-stats-log.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const configOf = (everyS: number, ...models: string[]): Config =>
  parseConfig(
    {
      log: { stats_interval_s: everyS },
      clusters: [
        { id: 'c', pools: models.map((model) => ({ model, engines: [{ id: model, url: `http://${model}` }] })) },
      ],
    },
    {},
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )

it('the statistics of engines are written as often as ever, and go on counting, under configurations that change more often', async () => {
  const lines: [string, number | null][] = []
  let total = 0
  const info = (_event: string, { engine, qps }: { engine: string; qps: number | null }) =>
    void lines.push([engine, qps])
  const poolOf = (_cluster: string, pool: string) =>
    ({
      digest: async () => ({
        cluster: 'c',
        pool,
        engines: [{ id: pool, requestsTotal: (total += 60), queuedPrefillS: 0, ttftMs: null }],
      }),
    }) as unknown as PoolPort
  const stats = logEngineStats(configOf(60, 'm'), {
    pool: poolOf,
    now: () => Date.now(),
    log: { debug: info, info, warn: info, error: info },
  })
  for (let times = 0; times < 15; times++) {
    await vi.advanceTimersByTimeAsync(10_000)
    stats.adopt(configOf(60, 'm'))
  }
  expect(lines).toEqual([
    ['m', null],
    ['m', 1],
  ])
  lines.length = 0
  stats.adopt(configOf(10, 'm', 'n'))
  await vi.advanceTimersByTimeAsync(10_050)
  expect(lines.map(([engine]) => engine)).toEqual(['m', 'n'])
  stats.adopt(configOf(0, 'm'))
  await vi.advanceTimersByTimeAsync(60_000)
  stats.adopt(configOf(10, 'm'))
  await vi.advanceTimersByTimeAsync(10_050)
  expect(lines).toHaveLength(3)
  stats.stop()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(lines).toHaveLength(3)
})
