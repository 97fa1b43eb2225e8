import { expect, it } from 'vitest'
import { mergeCapacities, mergeCapacityErrors } from '../../../src/core/capacity/merge-capacities.ts'
import type { RoleCapacity } from '../../../src/core/contract/pool-capacity.ts'

const part = (changes: Partial<RoleCapacity> = {}): RoleCapacity => ({
  role: 'any',
  replicas: 1,
  neededEngines: 0.3,
  requestsPerS: 2,
  spareRequestsPerS: 5,
  exhaustionS: null,
  ...changes,
})

it('parts of a pool need as many engines as their sum', () => {
  expect(mergeCapacities([[part()], [part({ exhaustionS: 60 })], [part({ spareRequestsPerS: null })]])).toEqual([
    {
      role: 'any',
      replicas: 1,
      neededEngines: expect.closeTo(0.9),
      requestsPerS: 6,
      spareRequestsPerS: 10,
      exhaustionS: 60,
    },
  ])
})

it('roles of the parts are joined by their names, and no traffic needs no engine', () => {
  const idle = part({ role: 'decode', replicas: 0, neededEngines: 0, requestsPerS: 0, spareRequestsPerS: null })
  const merged = mergeCapacities([
    [part({ neededEngines: 2.2, replicas: 3 }), idle],
    [part({ neededEngines: 2.2 }), idle],
  ])
  expect(merged.map(({ role, replicas }) => [role, replicas])).toEqual([
    ['any', 5],
    ['decode', 0],
  ])
})

it('compared minutes of the parts are added, and none are no error', () => {
  expect(mergeCapacityErrors([])).toBeNull()
  expect(
    mergeCapacityErrors([
      { minutes: 60, overstated: 3, understated: 1 },
      { minutes: 10, overstated: 1, understated: 0 },
    ]),
  ).toEqual({ minutes: 70, overstated: 4, understated: 1 })
})
