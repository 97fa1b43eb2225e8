import { expect, it } from 'vitest'
import { pathRows } from '../../packages/bench/edge/path-model.ts'

it('a Worker beside its engines gives the first byte in time to clients in twelve cities, with one to three regions', () => {
  const rows = pathRows()
  expect(rows).toHaveLength(120)
  expect(new Set(rows.map(({ regions }) => regions))).toEqual(new Set([1, 2, 3]))
  expect(rows.filter(({ placed_ms, goal_ms }) => placed_ms > goal_ms)).toEqual([])
})
