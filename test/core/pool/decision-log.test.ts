import { describe, expect, it } from 'vitest'
import type { Decision } from '../../../src/core/contract/decision.ts'
import { DecisionLog } from '../../../src/core/pool/decision-log.ts'
import type { Choice } from '../../../src/core/pool/decision-result.ts'
import { RankingPool } from '../../../src/core/routing/ranking.ts'
import { outcome } from '../../kit/pool-fixtures.ts'

describe('DecisionLog', () => {
  it('DecisionLog drops the oldest beyond its limit', () => {
    const ring = new DecisionLog(2, new RankingPool())
    for (const id of ['a', 'b', 'c']) ring.add(decision(id))
    expect([ring.find('a'), ring.find('b')?.id, ring.find('c')?.id]).toEqual([null, 'b', 'c'])
  })

  it('DecisionLog finds the last attempt by id, and each by its key', () => {
    const ring = new DecisionLog(9, new RankingPool())
    ring.add(decision('a', 0))
    ring.add(decision('a', 1))
    expect([ring.find('a')?.attempt, ring.find('a#0')?.attempt]).toEqual([1, 0])
  })

  it('DecisionLog keeps the last attempt findable when the first is dropped', () => {
    const ring = new DecisionLog(2, new RankingPool())
    ring.add(decision('a', 0))
    ring.add(decision('a', 1))
    ring.add(decision('b'))
    expect([ring.find('a')?.attempt, ring.find('a#0')]).toEqual([1, null])
  })

  it('DecisionLog adds the outcome of a decision, and ignores dropped ones', () => {
    const ring = new DecisionLog(1, new RankingPool())
    ring.add(decision('a'))
    ring.settle(
      { id: 'a', attempt: 0 },
      outcome({ stages: { first_byte: 7 }, usage: { promptTokens: 9, completionTokens: 1, cachedTokens: 4 } }),
    )
    ring.settle({ id: 'z', attempt: 0 }, outcome())
    expect(ring.find('a')?.actual).toEqual({
      ttftMs: 7,
      cachedTokens: 4,
      result: 'complete',
      stages: { first_byte: 7 },
    })
  })
})

function decision(id: string, attempt = 0): Choice {
  return { decision: { id, attempt, candidates: [], actual: null } as unknown as Decision, ranked: [] }
}
