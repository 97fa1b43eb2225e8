import { describe, expect, it } from 'vitest'
import { needsCards, objectiveOf } from '../../src/dashboard/engine-state.ts'
import { type TrafficSample, rejectionReasons, addSample } from '../../src/dashboard/rejections.ts'
import type { Pool, View } from '../../src/dashboard/wire.ts'

const pool = (more: Partial<Pool> = {}): Pool => ({
  cluster: 'c',
  region: null,
  model: 'm',
  aliases: [],
  policy: 'predicted',
  slo: null,
  reachable: true,
  bookings: 0,
  engines: [],
  ...more,
})
const slo = (ttft: number | null, per1k: number | null = null) =>
  pool({ slo: { ttft_ms: ttft, ttft_ms_per_1k_tokens: per1k, itl_ms: null } })

describe('the reasons of rejections', () => {
  it('the reasons of rejections are those of the last 10 s, most frequent first', () => {
    let marks: readonly TrafficSample[] = []
    for (let second = 0; second <= 20; second++)
      marks = addSample(marks, {
        at: second * 1000,
        traffic: {
          output_tokens_total: 0,
          rejected_total: { key_wrong: Math.min(5, second), overloaded: 3 * second, rate_limited: second },
        },
      } as unknown as View)
    expect(rejectionReasons(marks)).toEqual(['overloaded', 'rate limited'])
    expect(marks.length).toBeLessThan(12)
  })

  it('the reasons of rejections are none for a gateway that does not send totals', () => {
    expect(rejectionReasons(addSample([], { at: 1 } as View))).toEqual([])
  })
})

describe('the objective that the tiles compare with', () => {
  it('the objective that the tiles compare with is the one of all pools that have one', () => {
    expect(objectiveOf([slo(500), pool(), slo(500)])).toBe(500)
  })

  it.each([[[pool()]], [[slo(null)]], [[slo(500), slo(800)]], [[slo(500, 100)]]])(
    'the objective that the tiles compare with is none without one value for all requests',
    (pools) => expect(objectiveOf(pools)).toBeNull(),
  )
})

it('the dashboard draws no card for the only pool, unless the card says more than the table of engines', () => {
  expect(needsCards([pool()])).toBe(false)
  expect(needsCards([pool(), pool()])).toBe(true)
  expect(needsCards([pool({ reachable: false })])).toBe(true)
  expect(needsCards([pool({ gateway: null })])).toBe(true)
})
