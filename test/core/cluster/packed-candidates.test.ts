import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RankedCandidate } from '../../../src/core/cluster/contract.ts'
import { pack, unpack } from '../../../src/core/cluster/packed-candidates.ts'

const number = fc.double({ noNaN: true })
const candidate = (names: readonly string[]): fc.Arbitrary<RankedCandidate> =>
  fc.record({ engine: fc.string(), cost: number, terms: fc.record(Object.fromEntries(names.map((name) => [name, number]))).map((terms) => ({ ...terms })) })

describe('packed candidates', () => {
  it('come back as they were, whether all have the same terms or not', () => {
    const names = ['a', 'b', 'c', 'd']
    const some = fc.subarray(names).chain(candidate)
    fc.assert(
      fc.property(fc.oneof(fc.array(candidate(names)), fc.array(some)), (candidates) => {
        expect(unpack(pack(candidates))).toEqual(candidates)
      }),
    )
  })
})
