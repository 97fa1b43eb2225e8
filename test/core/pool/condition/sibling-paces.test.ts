import { describe, expect, it } from 'vitest'
import { engineState } from '../../../kit/engine-state.ts'
import { SiblingPaces } from '../../../../src/core/pool/condition/sibling-paces.ts'
import { engine } from '../../../kit/pool-fixtures.ts'

describe('paces of a pool', () => {
  const behind = (seconds: readonly (number | null)[], changes: Parameters<typeof engine>[1][] = []): string[] => {
    const engines = seconds.map((_, at) => engineState(at, engine(`e${at}`, changes[at] ?? {})))
    const paces = new SiblingPaces(engines, ({ slot }) => seconds[slot]!)
    return engines.filter((one) => paces.isBehind(one)).map(({ spec }) => spec.id)
  }

  it('paces of a pool show the engine that is three times slower than the median of the others', () => {
    expect(behind([0.1, 0.1, 0.31])).toEqual(['e2'])
    expect(behind([0.1, 0.31])).toEqual(['e1'])
    expect(behind([0.31, 0.1, 0.1, 0.1, 0.31])).toEqual(['e0', 'e4'])
    expect(behind([0.1, 0.1, 0.3])).toEqual([])
  })

  it('paces of a pool are compared with those of other engines only', () => {
    expect(behind([1])).toEqual([])
    expect(behind([null, 1])).toEqual([])
    expect(behind([0.1, null, 0.31])).toEqual(['e2'])
  })

  it('paces of a pool are compared within a role and a profile', () => {
    expect(behind([0.1, 0.1, 1], [{}, {}, { profile: 'small' }])).toEqual([])
    expect(behind([0.1, 0.1, 1], [{}, {}, { role: 'prefill' }])).toEqual([])
  })
})
