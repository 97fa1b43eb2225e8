import { describe, expect, it } from 'vitest'
import type { ClientCall } from '../../packages/bench/recovery/client.ts'
import { figuresOf } from '../../packages/bench/recovery/figures.ts'

describe('figures of a fault', () => {
  const answered = (sentAt: number, changes: Partial<ClientCall> = {}): ClientCall => ({
    id: `client-${sentAt}`,
    sentAt,
    firstTokenAt: sentAt + 100,
    isComplete: true,
    engine: 'a',
    problem: null,
    ...changes,
  })
  const before = Array.from({ length: 40 }, (_, at) => answered(at * 100))
  const observed = { sent: before, placed: [], sick: 'a', faultAt: 5_000, healedAt: 15_000 }

  it('counts placements on the sick engine between the fault and its end', () => {
    const placed = [4_000, 6_000, 8_000, 15_500].map((at) => ({ engine: 'a', at }))
    const others = [9_000, 15_100].map((at) => ({ engine: 'b', at }))
    expect(figuresOf({ ...observed, placed: [...placed, ...others] })).toMatchObject({
      placed: 2,
      last_placement_s: 3,
      back_in_use_s: 0.5,
    })
  })

  it('counts requests without a token as lost, and streams that break later apart', () => {
    const lost = answered(6_000, { firstTokenAt: null, isComplete: false, problem: 'no token' })
    const ended = answered(7_000, { isComplete: false, problem: 'error event' })
    expect(figuresOf({ ...observed, sent: [...before, lost, ended] })).toMatchObject({ lost: 1, streams_ended: 1 })
  })

  it('counts requests later than twice the p99 before the fault', () => {
    const late = answered(6_000, { firstTokenAt: 6_201 })
    const inTime = answered(7_000, { firstTokenAt: 7_199 })
    expect(figuresOf({ ...observed, sent: [...before, late, inTime] })).toMatchObject({ late: 1, p99_before_ms: 100 })
  })

  it('has no times where nothing was placed', () => {
    expect(figuresOf(observed)).toMatchObject({ placed: 0, last_placement_s: null, back_in_use_s: null })
  })
})
