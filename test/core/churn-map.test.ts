import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ChurnMap } from '../../src/core/churn-map.ts'

describe('a map of entries that come and go', () => {
  it('a map of entries that come and go has the entries of a Map in its order, however many came and went', () => {
    const changes = fc.array(fc.record({ key: fc.nat(40), isSet: fc.boolean(), times: fc.nat(300) }), { maxLength: 60 })
    fc.assert(
      fc.property(changes, (all) => {
        const [map, model] = [new ChurnMap<number, number>(), new Map<number, number>()]
        for (const { key, isSet, times } of all) {
          for (let at = 0; at < times; at++) {
            map.set(100 + at, at)
            model.set(100 + at, at)
            expect(map.delete(100 + at)).toBe(model.delete(100 + at))
          }
          if (isSet) {
            map.set(key, times)
            model.set(key, times)
          } else expect(map.delete(key)).toBe(model.delete(key))
          expect(map.get(key)).toBe(model.get(key))
          expect(map.has(key)).toBe(model.has(key))
        }
        expect(map.size).toBe(model.size)
        expect([...map]).toEqual([...model])
        expect([...map.values()]).toEqual([...model.values()])
      }),
    )
  })

  it('a map of entries that come and go returns every entry once to an iteration in which entries are deleted', () => {
    const map = new ChurnMap<number, number>()
    for (let key = 0; key < 5_000; key++) map.set(key, key)
    const seen: number[] = []
    for (const [key] of map) {
      seen.push(key)
      map.delete(key)
    }
    expect(seen).toHaveLength(5_000)
    expect(map.size).toBe(0)
  })
})
