import { describe, expect, it } from 'vitest'
import type { Decision } from '../../../../src/core/contract/decision.ts'
import { DecisionLog } from '../../../../src/core/pool/decision/decision-log.ts'
import type { Choice } from '../../../../src/core/pool/decision/decision-result.ts'
import { RankingPool } from '../../../../src/core/routing/ranking.ts'
import { outcome } from '../../../kit/pool-fixtures.ts'

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
    const logged = ring.add(decision('a'))
    ring.settle(
      logged,
      outcome({ stages: { first_byte: 7 }, usage: { promptTokens: 9, completionTokens: 1, cachedTokens: 4 } }),
    )
    expect(ring.find('a')?.actual).toEqual({
      ttftMs: 7,
      cachedTokens: 4,
      result: 'complete',
      stages: { first_byte: 7 },
    })
    ring.add(decision('b'))
    ring.settle(logged, outcome())
    expect([ring.find('a'), ring.measured(9)]).toEqual([null, []])
  })

  it('DecisionLog returns the last measured decisions once each, by their last measurement', () => {
    const ring = new DecisionLog(99, new RankingPool())
    const [a, b] = [ring.add(decision('a')), ring.add(decision('b'))]
    for (const logged of [a, b]) ring.firstToken(logged, { ttft: 5 })
    ring.settle(a, outcome())
    ring.add(decision('c'))
    expect(ring.measured(9).map(({ id, firstToken, actual }) => [id, firstToken?.ttftMs, actual?.result])).toEqual([
      ['a', 5, 'complete'],
      ['b', 5, undefined],
    ])
  })

  it('DecisionLog keeps the 64 decisions that were measured last', () => {
    const ring = new DecisionLog(999, new RankingPool())
    const all = Array.from({ length: 70 }, (_, at) => ring.add(decision(String(at))))
    for (const logged of all) {
      ring.firstToken(logged, { ttft: 5 })
      ring.settle(logged, outcome())
    }
    expect(ring.measured(999).map(({ id }) => Number(id))).toEqual(Array.from({ length: 64 }, (_, at) => 69 - at))
  })

  it('DecisionLog returns the earlier attempt of a request whose hedge lost', () => {
    const ring = new DecisionLog(9, new RankingPool())
    ring.add(decision('a', 0))
    const hedge = ring.add({ decision: { ...decision('a', 1).decision, hedge: true }, ranked: [] })
    expect(ring.find('a')?.attempt).toBe(1)
    ring.settle(hedge, outcome({ result: 'abandoned' }))
    expect(ring.find('a')?.attempt).toBe(0)
  })
})

function decision(id: string, attempt = 0): Choice {
  return { decision: { id, attempt, candidates: [], actual: null } as unknown as Decision, ranked: [] }
}
