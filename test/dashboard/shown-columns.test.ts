import { expect, it } from 'vitest'
import { linesOf } from '../../src/dashboard/engine-state.ts'
import { isShown, shownIn } from '../../src/dashboard/shown-columns.ts'
import type { Pool } from '../../src/dashboard/wire.ts'

const pool = (more: object = {}): Pool =>
  ({ cluster: 'c', model: 'm', engines: [{ id: 'a', role: 'any', available: true }], ...more }) as unknown as Pool

it('columns of the load of engines are left out if all rows are regions, and cluster and role if they are the same', () => {
  const columns = ['cluster', 'role', 'queue', 'kv', 'ttft'] as const
  const shownOf = (...pools: readonly Pool[]) => columns.filter((column) => isShown(shownIn(linesOf(pools)), column))
  expect(shownOf(pool())).toEqual(['queue', 'kv', 'ttft'])
  expect(shownOf(pool({ gateway: null }), pool({ gateway: null }))).toEqual(['cluster', 'ttft'])
  expect(shownOf(pool(), pool({ gateway: null }))).toEqual(['cluster', 'role', 'queue', 'kv', 'ttft'])
})
