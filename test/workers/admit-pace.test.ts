import { describe, expect, it } from 'vitest'
import { AdmitPace } from '../../src/platform/workers/admit-pace.ts'

/** Records calls of `tookMs`, 20 ms apart. */
function send(pace: AdmitPace, { tookMs, calls, from }: Record<'tookMs' | 'calls' | 'from', number>): number {
  for (let call = 0; call < calls; call++) pace.record(from + 20 * call, from + 20 * call + tookMs)
  return from + 20 * calls
}

describe('the limit of an admit', () => {
  it('the limit of an admit is unknown until one was answered', () => {
    expect(new AdmitPace().limitMs).toBeNull()
  })

  it('the limit of an admit is 50 ms beyond the usual time, near and far', () => {
    for (const usualMs of [5, 130]) {
      const pace = new AdmitPace()
      pace.record(0, 300)
      send(pace, { tookMs: usualMs, calls: 3, from: 1_000 })
      expect(pace.limitMs).toBe(usualMs + 50)
    }
  })

  it('the limit of an admit stays during an overload of 5 s, and follows an object that has moved', () => {
    const pace = new AdmitPace()
    const from = send(pace, { tookMs: 5, calls: 2, from: 0 })
    const after = send(pace, { tookMs: 200, calls: 250, from })
    expect(pace.limitMs).toBeLessThan(100)
    send(pace, { tookMs: 200, calls: 2_500, from: after })
    expect(pace.limitMs).toBe(250)
  })
})
