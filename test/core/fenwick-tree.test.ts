import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { addAt, sumTo } from '../../src/core/fenwick-tree.ts'

it('sumTo equals the prefix sum after any additions to a row of any length', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 100 }),
      fc.array(fc.tuple(fc.nat(), fc.integer({ min: -1e9, max: 1e12 })), { maxLength: 200 }),
      (length, additions) => {
        const row = Array.from({ length }, () => 0)
        const sums = new Float64Array(length + 1)
        for (const [which, by] of additions) {
          row[which % length]! += by
          addAt(1 + (which % length), by, sums)
        }
        let sum = 0
        expect(row.map((_, at) => sumTo(at + 1, sums))).toEqual(row.map((value) => (sum += value)))
      },
    ),
  )
})
