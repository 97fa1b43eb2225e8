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

  it('BoundedSet contains at most as many keys as its limit', () =>
    expect(held(filled(3, ['a', 'b', 'c']), keys)).toEqual(['a', 'b', 'c']))

  it('BoundedSet evicts the oldest key for a new one, also after the ring has wrapped', () => {
    expect(held(filled(3, keys.slice(0, 4)), keys)).toEqual(['b', 'c', 'd'])
    expect(held(filled(3, keys), keys)).toEqual(['e', 'f', 'g'])
  })

  it('BoundedSet evicts no key if the added key is already present', () =>
    expect(held(filled(3, ['a', 'b', 'c', 'a']), keys)).toEqual(['a', 'b', 'c']))

  it('BoundedSet deletes a key', () => {
    const set = filled(3, ['a', 'b'])
    set.delete('a')
    expect(held(set, keys)).toEqual(['b'])
  })
})
