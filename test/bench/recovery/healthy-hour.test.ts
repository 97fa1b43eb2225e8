import { expect, it } from 'vitest'
import { healthyHour } from '../../../packages/bench/recovery/healthy-hour.ts'

it.each([1, 2])('a healthy hour ejects no engine in overload, bursts, long prefills and aborts of seed %i', (seed) => {
  const { requests, aborted, ejections } = healthyHour({ seed, minutes: 4, profile: 'h100-8b' })
  expect(requests).toBeGreaterThan(2_000)
  expect(aborted).toBeGreaterThan(200)
  expect(ejections).toEqual([])
})
