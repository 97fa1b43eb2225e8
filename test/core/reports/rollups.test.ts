import { expect, it } from 'vitest'
import { Rollups } from '../../../src/core/reports/rollups.ts'
import { record } from '../../contracts/ttft.ts'

it('counts every request, in no more groups than it may have, however many engines come and go', () => {
  const rollups = new Rollups()
  for (let at = 0; at < 6_000; at++) rollups.record(record({ engine: `pod-${at}` }))
  const groups = rollups.groups()
  expect(groups.length).toBeLessThanOrEqual(5_001)
  const requests = groups.flatMap(({ counts }) => Object.entries(counts).filter(([name]) => name.startsWith('requests:')).map(([, count]) => count))
  expect(requests.reduce((sum, count) => sum + count, 0)).toBe(6_000)
})
