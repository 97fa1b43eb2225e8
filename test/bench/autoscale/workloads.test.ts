import { expect, test } from 'vitest'
import { autoscaleWorkload, GENERATED } from '../../../packages/bench/autoscale/workloads.ts'

test('the generated hour rises sixfold, has a rush, and is the same each time', () => {
  const { trace } = autoscaleWorkload(GENERATED, false)
  const inMinutes = (from: number, to: number): number =>
    trace.requests.filter(({ atMs }) => atMs >= from * 60_000 && atMs < to * 60_000).length
  expect(inMinutes(25, 35)).toBeGreaterThan(3 * inMinutes(0, 10))
  expect(inMinutes(45, 50)).toBeGreaterThan(2 * inMinutes(50, 55))
  expect(trace.requests.at(-1)!.atMs).toBeGreaterThan(3_000_000)
  expect(autoscaleWorkload(GENERATED, false).trace.requests).toEqual(trace.requests)
})

test('a quick workload is the first ten minutes', () => {
  const { trace } = autoscaleWorkload(GENERATED, true)
  expect(trace.requests.length).toBeGreaterThan(100)
  expect(trace.requests.at(-1)!.atMs).toBeLessThan(600_000)
})
