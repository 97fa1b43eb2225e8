import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { harnesses } from '../../../packages/bench/conformance/harness.ts'

const folder = mkdtempSync(join(tmpdir(), 'firstlight-harness-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Parts of real reports of 40 requests. */
const reports = {
  vllmBench: [
    'report.json',
    { completed: 39, failed: 1, total_output_tokens: 624, mean_ttft_ms: 98.5, median_ttft_ms: 80.5 },
  ],
  aiperf: [
    'profile_export_aiperf.json',
    {
      request_count: { unit: 'requests', avg: 39 },
      error_request_count: { unit: 'requests', avg: 1 },
      total_output_tokens: { unit: 'tokens', avg: 624 },
      time_to_first_token: { unit: 'ms', avg: 98.5, p50: 80.5 },
    },
  ],
  guidellm: [
    'report.json',
    {
      benchmarks: [
        {
          metrics: {
            request_totals: { successful: 39, errored: 1, incomplete: 0, total: 40 },
            output_token_count: { successful: { mean: 16, total_sum: 624 } },
            time_to_first_token_ms: { successful: { mean: 98.5, median: 80.5 } },
          },
        },
      ],
    },
  ],
  inferencePerf: [
    'report/summary_lifecycle_metrics.json',
    {
      successes: {
        count: 39,
        output_tokens: { total: 624 },
        latency: { time_to_first_token: { mean: 0.0985, median: 0.0805 } },
      },
      failures: { count: 1 },
    },
  ],
} as const

for (const [name, [file, report]] of Object.entries(reports))
  it(`the report of ${name} is read`, () => {
    const own = join(folder, name)
    mkdirSync(join(own, file, '..'), { recursive: true })
    writeFileSync(join(own, file), JSON.stringify(report))
    expect(harnesses[name as keyof typeof reports].read(own)).toEqual({
      completed: 39,
      failed: 1,
      outputTokens: 624,
      meanTtftMs: 98.5,
    })
  })

it('a harness gets an address, a model and a folder with spaces as whole arguments', () => {
  const target = { url: 'http://127.0.0.1:9', model: 'tiny', tokenizer: '/a b/tiny', folder }
  for (const harness of Object.values(harnesses)) {
    const command = harness.command(target, '/c d/program')
    expect(command[0]).toBe('/c d/program')
    expect(command.filter((word) => word === '')).toEqual([])
  }
  expect(harnesses.vllmBench.command(target, 'vllm')).toEqual(
    expect.arrayContaining(['http://127.0.0.1:9', 'tiny', '/a b/tiny', folder]),
  )
})
