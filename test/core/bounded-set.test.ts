import { describe, expect, it } from 'vitest'
import { BoundedSet } from '../../src/core/bounded-set.ts'

const filled = (limit: number, keys: readonly string[]): BoundedSet => {
  const set = new BoundedSet(limit)
  for (const key of keys) set.add(key)
  return set
}
const held = (set: BoundedSet, keys: readonly string[]): string[] => keys.filter((key) => set.has(key))

describe('BoundedSet', () => {
  const keys = ['a', 'b', 'c', 'd', 'e', 'f', 'g']

  it('BoundedSet contains its latest keys, at least as many as its limit and at most twice as many', () => {
    expect(held(filled(3, keys.slice(0, 3)), keys)).toEqual(['a', 'b', 'c'])
    expect(held(filled(3, keys.slice(0, 6)), keys)).toEqual(['a', 'b', 'c', 'd', 'e', 'f'])
    expect(held(filled(3, keys), keys)).toEqual(['d', 'e', 'f', 'g'])
  })

  it('BoundedSet evicts no key if the added key is already present', () =>
    expect(held(filled(3, ['a', 'b', 'a', 'c', 'a', 'b', 'c']), keys)).toEqual(['a', 'b', 'c']))

  it('BoundedSet deletes a key', () => {
    const set = filled(2, ['a', 'b', 'c'])
    set.delete('a')
    set.delete('c')
    expect(held(set, keys)).toEqual(['b'])
  })
})
