import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LinkedList, type ListEntry } from '../../src/core/linked-list.ts'

interface Numbered extends ListEntry<Numbered> {
  readonly number: number
}

const numbered = (number: number): Numbered => ({ number, previous: null, next: null, isListed: false })

const numbers = (list: LinkedList<Numbered>): number[] => [...list].map(({ number }) => number)

describe('a linked list', () => {
  it('a linked list equals an array in the order of addition, after any additions and deletions', () => {
    const step = fc.record({ adds: fc.boolean(), at: fc.nat() })
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const list = new LinkedList<Numbered>()
        const known: Numbered[] = []
        let model: number[] = []
        for (const { adds, at } of steps) {
          if (adds || known.length === 0) {
            const entry = numbered(known.length)
            known.push(entry)
            list.add(entry)
            model.push(entry.number)
          } else {
            const entry = known[at % known.length]!
            expect(list.delete(entry)).toBe(model.includes(entry.number))
            model = model.filter((number) => number !== entry.number)
          }
          expect(numbers(list)).toEqual(model)
          expect(list.size).toBe(model.length)
          expect(list.first?.number).toBe(model[0])
        }
      }),
    )
  })

  it('a linked list goes on behind an entry that is deleted while it is read', () => {
    const list = new LinkedList<Numbered>()
    for (const number of [0, 1, 2, 3]) list.add(numbered(number))
    for (const entry of list) if (entry.number % 2 === 0) list.delete(entry)
    expect(numbers(list)).toEqual([1, 3])
  })

  it('a linked list does not keep later entries alive through a deleted one', () => {
    const list = new LinkedList<Numbered>()
    const first = numbered(0)
    list.add(first)
    list.add(numbered(1))
    list.delete(first)
    expect(first).toEqual(numbered(0))
  })
})
