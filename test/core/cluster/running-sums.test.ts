import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RunningSums } from '../../../src/core/cluster/running-sums.ts'

describe('RunningSums', () => {
  it('are the sums of a row that grows, changes and begins anew, whatever it holds', () => {
    const step = fc.record({ do: fc.constantFrom('append' as const, 'append' as const, 'change' as const, 'empty' as const), which: fc.nat(), value: fc.integer({ min: -1e9, max: 1e12 }) })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const sums = new RunningSums()
        let row: number[] = []
        for (const { do: how, which, value } of steps) {
          if (how === 'append') {
            if (sums.isFull) {
              row = row.filter((kept) => kept !== 0)
              sums.begin(row.length)
              for (const kept of row) sums.append(kept)
            }
            expect(sums.append(value)).toBe(row.push(value))
          } else if (how === 'empty') {
            row.forEach((kept, at) => sums.change(at + 1, -kept))
            row = []
            sums.emptied()
          } else if (row.length > 0) {
            const at = which % row.length
            sums.change(at + 1, value - row[at]!)
            row[at] = value
          }
          let sum = 0
          expect(row.map((_, at) => sums.upTo(at + 1))).toEqual(row.map((kept) => (sum += kept)))
        }
      }),
    )
  })

  it('are right in a row longer than what an empty one keeps, and after it', () => {
    const sums = new RunningSums()
    for (const longest of [5000, 10]) {
      for (let at = 1; at <= longest; at++) {
        if (sums.isFull) {
          sums.begin(at - 1)
          for (let kept = 1; kept < at; kept++) sums.append(kept)
        }
        sums.append(at)
      }
      expect([1, 7, longest].map((place) => sums.upTo(place))).toEqual([1, 28, (longest * (longest + 1)) / 2])
      for (let at = 1; at <= longest; at++) sums.change(at, -at)
      sums.emptied()
    }
  })
})
