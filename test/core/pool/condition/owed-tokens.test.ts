import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { OwedTokens, predictionErrorMs } from '../../../../src/core/pool/condition/owed-tokens.ts'

const ERROR_MS = predictionErrorMs(1_000, true)
const predicted = (predictedMs: number, now: number, prefillMs = 0) => ({ predictedMs, prefillMs, now })
const learnedAt = (now: number) => ({ now, isLearned: true })

describe('first outputs that an engine owes', () => {
  const owing = (): OwedTokens => {
    const owed = new OwedTokens()
    owed.add(predicted(1_000, 0))
    return owed
  }

  it('first outputs that an engine owes are overdue after the prediction and its error', () => {
    expect(owing().overdueSince(-Infinity, learnedAt(1_000 + ERROR_MS))).toBeNull()
    expect(owing().overdueSince(-Infinity, learnedAt(1_001 + ERROR_MS))).toBe(1_000 + ERROR_MS)
  })

  it('first outputs are overdue later if the prompt is longer than those learned from, but no later than without samples', () => {
    const overdueAt = (beyondMs: number) => {
      const owed = new OwedTokens()
      owed.add({ ...predicted(1_000, 0, 900), beyondMs })
      return owed.overdueSince(-Infinity, learnedAt(60_000))
    }
    expect(overdueAt(0)).toBe(1_000 + ERROR_MS)
    expect(overdueAt(700)).toBe(1_700 + ERROR_MS)
    expect(overdueAt(1_000_000)).toBe(1_000 + predictionErrorMs(1_000, false))
  })

  it('first outputs leave an engine the time for the longest prefill that waits there, extrapolated', () => {
    const silentSince = (beyondMs: number) => {
      const owed = owing()
      owed.add({ ...predicted(9_000, 0, 5_000), beyondMs })
      return owed.overdueSince(2_000, learnedAt(60_000))
    }
    expect(silentSince(2_000)! - silentSince(0)!).toBe(2_000)
  })

  it('first outputs that an engine owes are not overdue while the engine moves', () => {
    expect(owing().overdueSince(5_000, learnedAt(5_000 + ERROR_MS))).toBeNull()
    expect(owing().overdueSince(5_000, learnedAt(5_001 + ERROR_MS))).toBe(5_000 + ERROR_MS)
  })

  it('first outputs that an engine owes leave nothing behind if the client leaves before its time', () => {
    const owed = new OwedTokens()
    owed.abandoned(owed.add(predicted(1_000, 0)), learnedAt(1_000 + ERROR_MS))
    expect(owed.overdueSince(-Infinity, learnedAt(60_000))).toBeNull()
  })

  it('first outputs that an engine owes stay as evidence if the client leaves after it, until the engine moves', () => {
    const owed = new OwedTokens()
    owed.abandoned(owed.add(predicted(1_000, 0)), learnedAt(9_000))
    expect(owed.size).toBe(0)
    expect(owed.overdueSince(-Infinity, learnedAt(60_000))).toBe(1_000 + ERROR_MS)
    owed.moved()
    expect(owed.overdueSince(-Infinity, learnedAt(60_000))).toBeNull()
  })

  it('first outputs that an engine owes are no evidence any more if the engine answered a trial while they were overdue', () => {
    const owed = owing()
    owed.add(predicted(20_000, 0))
    owed.excuse(learnedAt(10_000))
    expect(owed.overdueSince(10_000, learnedAt(20_000))).toBeNull()
    expect(owed.overdueSince(10_000, learnedAt(40_000))).not.toBeNull()
  })

  it('first outputs that an engine owes follow the predicted work: a long prefill is not overdue before its end', () => {
    const owed = new OwedTokens()
    const long = owed.add(predicted(120_000, 0))
    owed.add(predicted(121_000, 0))
    expect(owed.overdueSince(-Infinity, learnedAt(120_000))).toBeNull()
    owed.settled(long)
    expect(owed.overdueSince(120_000, learnedAt(180_000))).toBeNull()
  })

  it('first outputs that an engine owes may wait for the longest prefill since the last output, because engines change the order', () => {
    const owed = owing()
    owed.add(predicted(20_000, 0, 10_000))
    expect(owed.overdueSince(5_000, learnedAt(20_000))).toBeNull()
    expect(owed.overdueSince(5_000, learnedAt(21_000))).toBe(20_000 + predictionErrorMs(0, true))
  })

  it('first outputs that an engine owes show until when a long prefill may run', () => {
    const owed = owing()
    expect(owed.longPrefillUntil(0, true)).toBe(-Infinity)
    owed.add(predicted(8_000, 0, 6_000))
    expect(owed.longPrefillUntil(0, true)).toBe(8_000 + predictionErrorMs(8_000, true))
    expect(owed.longPrefillUntil(7_000, true)).toBe(7_000 + 6_000 + predictionErrorMs(6_000, true))
  })

  it('first outputs that an engine owes have a larger error while the pace is not learned', () => {
    expect(predictionErrorMs(1_000, false)).toBeGreaterThan(3 * predictionErrorMs(1_000, true))
  })

  it('first outputs that an engine owes cannot be made overdue by clients that leave early', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ predictedMs: fc.nat(20_000), staysShare: fc.double({ min: 0, max: 1, noNaN: true }) })),
        (requests) => {
          const owed = new OwedTokens()
          for (const [at, { predictedMs, staysShare }] of requests.entries()) {
            const now = at * 10
            owed.abandoned(owed.add(predicted(predictedMs, now)), learnedAt(now + staysShare * predictedMs))
          }
          expect(owed.overdueSince(-Infinity, learnedAt(1e9))).toBeNull()
        },
      ),
    )
  })

  it('a first output is lost once it is long overdue and excused, or owed by a silent engine', () => {
    const owed = new OwedTokens()
    const late = owed.add(predicted(1_000, 0))
    const overdueAt = 1_000 + ERROR_MS
    const isLost = (now: number, isSilent: boolean) => owed.isLost(late, learnedAt(now), isSilent)
    expect([isLost(overdueAt + 3_000, true), isLost(overdueAt + 3_001, true)]).toEqual([false, true])
    expect(isLost(60_000, false)).toBe(false)
    owed.excuse(learnedAt(overdueAt + 1))
    expect([isLost(overdueAt + 3_000, false), isLost(overdueAt + 3_001, false)]).toEqual([false, true])
    owed.settled(late)
    expect(isLost(60_000, true)).toBe(false)
  })
})
