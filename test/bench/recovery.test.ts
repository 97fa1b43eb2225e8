import { describe, expect, it } from 'vitest'
import type { ClientCall } from '../../packages/bench/recovery/client.ts'
import { figuresOf, placedTooLongS } from '../../packages/bench/recovery/figures.ts'

describe('figures of a fault', () => {
  const answered = (sentAt: number, changes: Partial<ClientCall> = {}): ClientCall => ({
    id: `client-${sentAt}`,
    sentAt,
    firstTokenAt: sentAt + 100,
    isComplete: true,
    // Ten milliseconds a token: 160 for a block.
    endedAt: sentAt + 500,
    silence: { from: sentAt + 100, ms: 10 },
    engine: 'a',
    decision: null,
    problem: null,
    ...changes,
  })
  const before = Array.from({ length: 40 }, (_, at) => answered(at * 100))
  const observed = { sent: before, placed: [], sick: 'a', faultAt: 5_000, healedAt: 15_000 }

  it('the summary of a fault counts placements on the sick engine between the fault and its end', () => {
    const placed = [4_000, 6_000, 8_000, 15_500].map((at) => ({ engine: 'a', at, id: null }))
    const others = [9_000, 15_100].map((at) => ({ engine: 'b', at, id: null }))
    expect(figuresOf({ ...observed, placed: [...placed, ...others] })).toMatchObject({
      placed: 2,
      last_placement_s: 3,
      back_in_use_s: 0.5,
    })
  })

  it('the summary of a fault counts requests without a token as lost, and streams that break later apart', () => {
    const lost = answered(6_000, { firstTokenAt: null, isComplete: false, problem: 'no token' })
    const ended = answered(7_000, { isComplete: false, problem: 'error event' })
    expect(figuresOf({ ...observed, sent: [...before, lost, ended] })).toMatchObject({ lost: 1, streams_ended: 1 })
  })

  it('the summary of a fault counts requests later than twice the p99 before the fault', () => {
    const late = answered(6_000, { firstTokenAt: 6_201 })
    const inTime = answered(7_000, { firstTokenAt: 7_199 })
    expect(figuresOf({ ...observed, sent: [...before, late, inTime] })).toMatchObject({ late: 1, p99_before_ms: 100 })
  })

  describe('measure the last placement', () => {
    const placedAt = (...at: number[]) => at.map((time) => ({ engine: 'a', at: time, id: `client-${time}` }))
    const placedTooLong = (more: readonly ClientCall[], ...at: number[]) =>
      placedTooLongS(figuresOf({ ...observed, sent: [...before, ...more], placed: placedAt(...at) }))

    it('from the time at which the first token of the oldest request there was overdue', () => {
      // Predicted 100 ms, error 450 ms.
      const waiting = answered(5_000, { firstTokenAt: 9_000, endedAt: 9_400 })
      expect(placedTooLong([waiting, answered(7_550)], 5_000, 7_550)).toBeCloseTo(2)
    })

    it('from the time at which the next block of the first stream was overdue', () => {
      const stalled = answered(4_800, { endedAt: 20_000, silence: { from: 5_180, ms: 12_000 } })
      // One block of 160 ms, and 660 ms of error.
      expect(placedTooLong([stalled, answered(8_000)], 4_800, 8_000)).toBeCloseTo(2)
    })

    it('from the fault if no output was overdue, as with errors that are retried', () => {
      expect(placedTooLong([answered(5_200), answered(6_000)], 5_200, 6_000)).toBe(1)
    })

    it('not from silences of other engines, nor of responses before the fault', () => {
      const early = answered(1_000, { firstTokenAt: 4_000, endedAt: 4_900, silence: { from: 1_100, ms: 900 } })
      const elsewhere = answered(5_100, { firstTokenAt: 9_000, endedAt: 9_500 })
      expect(placedTooLong([early, elsewhere, answered(6_000)], 1_000, 6_000)).toBe(1)
    })
  })

  it('the summary of a fault has no times where nothing was placed', () => {
    expect(figuresOf(observed)).toMatchObject({ placed: 0, last_placement_s: null, back_in_use_s: null })
  })
})
