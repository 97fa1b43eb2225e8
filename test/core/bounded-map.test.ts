import { expect, it } from 'vitest'
import { BoundedMap } from '../../src/core/bounded-map.ts'

it('a bounded map evicts the entry that was set longest ago', () => {
  const map = new BoundedMap<string, number>(2)
  map.set('a', 1)
  map.set('b', 2)
  map.set('a', 3)
  map.set('c', 4)
  expect([...map]).toEqual([
    ['a', 3],
    ['c', 4],
  ])
})

it('a bounded map stores no entries if the limit is 0', () => {
  const map = new BoundedMap<string, number>(0)
  map.set('a', 1)
  expect(map.get('a')).toBeUndefined()
})
