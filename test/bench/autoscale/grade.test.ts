import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { grade, tunedQueue } from '../../../packages/bench/autoscale/grade.ts'

const folder = mkdtempSync(join(tmpdir(), 'grade-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Four prompts of 12,000 tokens a minute, for five minutes. */
function traceFile(): string {
  const rows = Array.from({ length: 20 }, (_, at) => ({
    timestamp: at * 15_000,
    input_length: 12_000,
    output_length: 40,
    hash_ids: Array.from({ length: 23 }, (__, block) => at * 23 + block),
  }))
  const file = join(folder, 'short.jsonl')
  writeFileSync(file, rows.map((row) => JSON.stringify(row)).join('\n'))
  return file
}

test('a grade has a row for each rule, with the objective kept where one engine is enough', () => {
  const source = traceFile()
  const queue = tunedQueue({ source, seed: 101, quick: true, windows: false })
  const { workload, rows } = grade({ source, seed: 1, quick: true, windows: true }, queue)
  expect(workload).toBe('short')
  expect(rows.map(({ rule }) => rule)).toEqual([
    'capacity',
    'queue_tuned',
    'queue_published',
    'kv_use',
    'kv_use_all_wait',
    'capacity_300_s',
    'queue_tuned_60_s',
    'queue_published_60_s',
    'kv_use_60_s',
    'kv_use_all_wait_60_s',
    'optimum',
  ])
  for (const { rule, slo_kept, replicas_max } of rows) expect([rule, slo_kept, replicas_max]).toEqual([rule, 1, 1])
})
