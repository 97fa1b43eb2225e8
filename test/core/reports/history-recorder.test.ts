import { describe, expect, it } from 'vitest'
import { EndedHistory } from '../../../src/core/reports/ended-history.ts'
import { FleetHistory } from '../../../src/core/reports/fleet-history.ts'
import { HistoryRecorder } from '../../../src/core/reports/history-recorder.ts'
import { mergeHistories } from '../../../src/core/reports/merge-histories.ts'

const NOW = 1_800_000_000_000
const first = (ttft: number, predictedTtftMs: number | null = null) => ({
  stages: { ttft, admit: 1 },
  promptTokens: 1_000,
  predictedTtftMs,
})

/** Requests of `seconds` with streams so long that none ends. */
function traffic(perS: number, seconds: number) {
  const recorder = new HistoryRecorder()
  recorder.configure({ ttftMs: 50, ttftMsPer1kTokens: 50, itlMs: null })
  for (let second = 0; second < seconds; second++)
    for (let n = 0; n < perS; n++) {
      const at = NOW + 1000 * second
      recorder.requested(at)
      recorder.firstToken(first(n % 2 === 0 ? 40 : 400, 40), at)
      recorder.output(20, at)
    }
  return recorder
}

describe('the history of a pool', () => {
  it('the history of a pool holds 15 minutes in steps of 10 s, whatever the rate', () => {
    const now = NOW + 3_600_000
    const { steps, slices } = traffic(3, 3_601).data(0, now)
    expect(steps.length).toBeLessThanOrEqual(91)
    expect(slices.length).toBeLessThanOrEqual(16)
    expect(steps[5]).toMatchObject({ requests: 30, outputTokens: 600, judged: 30 })
  })

  it('the history of a pool sends only what ended after a time', () => {
    const recorder = traffic(1, 120)
    const { steps, slices } = recorder.data(NOW + 100_000, NOW + 119_000)
    expect(steps.map(({ at }) => at - NOW)).toEqual([100_000, 110_000])
    expect(slices.map(({ at }) => at - NOW)).toEqual([60_000])
  })

  it('the history of a pool adds to the last step when the clock goes back', () => {
    const recorder = traffic(1, 30)
    recorder.requested(NOW)
    expect(recorder.data(0, NOW + 30_000).steps.at(-1)).toMatchObject({ requests: 11 })
  })

  it('the history of a pool adds up over parts of a pool', () => {
    const [a, b] = [traffic(2, 20), traffic(3, 30)]
    const sum = mergeHistories([a.data(0, NOW + 30_000), b.data(0, NOW + 30_000)])
    expect(sum.steps.map(({ requests }) => requests)).toEqual([50, 50, 30])
    expect(sum.slices[0]!.errors.reduce((total, count) => total + count, 0)).toBe(130)
  })
})

describe('the history of the fleet', () => {
  it.each([1, 20, 500])(
    'the history of the fleet shows the last 15 minutes at %d requests/s to a page that opens now',
    (perS) => {
      const now = NOW + 1_000_000
      const fleet = new FleetHistory()
      fleet.add('p', traffic(perS, 1_000).data(fleet.since('p'), now), now)
      const { from, steps, now: current, stages, ttftErrors } = fleet.view({}, now)
      expect(from).toBe(now - 900_000)
      expect(steps.requestsPerS).toHaveLength(90)
      expect(new Set(steps.requestsPerS)).toEqual(new Set([perS]))
      expect(current).toMatchObject({ outputTokensPerS: expect.closeTo(20 * perS, -1) as number })
      expect(stages['admit']!.p50Ms).toBeCloseTo(1, 1)
      expect(ttftErrors.counts.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(800 * perS)
      if (perS > 1) {
        expect(current.ttftP50Ms).toBeCloseTo(40, -1)
        expect(current.ttftP99Ms).toBeCloseTo(400, -1)
        expect(current.withinSloShare).toBeCloseTo(0.5)
      }
    },
  )

  it('the history of the fleet asks a pool only for its newest steps, and keeps the older ones when its object is lost', () => {
    const fleet = new FleetHistory()
    fleet.add('p', traffic(2, 300).data(0, NOW + 299_000), NOW + 299_000)
    expect(fleet.since('p')).toBe(NOW + 280_000)
    const fresh = new HistoryRecorder()
    fresh.requested(NOW + 301_000)
    fleet.add('p', fresh.data(fleet.since('p'), NOW + 310_000), NOW + 310_000)
    const { steps } = fleet.view({}, NOW + 310_000)
    expect(steps.requestsPerS.slice(-3)).toEqual([2, 2, 0.1])
  })

  it('the history of the fleet measures shares and rates of ended requests, which the gateways count', () => {
    const counts = new EndedHistory()
    for (let n = 0; n < 100; n++) counts.add(n < 10 ? 'failed' : n < 50 ? 'rejected' : 'served', NOW + n * 100)
    const fleet = new FleetHistory()
    const { steps, now } = fleet.view(counts.byStep(), NOW + 10_000)
    expect(steps.failedShare).toEqual([10 / 60])
    expect(steps.rejectedPerS).toEqual([4])
    expect(now).toMatchObject({ failedShare: 10 / 60, rejectedPerS: 4 })
    counts.add('served', NOW + 2_000_000)
    expect(Object.keys(counts.byStep())).toHaveLength(1)
  })

  it('the history of the fleet knows nothing before the first request', () => {
    const { steps, now } = new FleetHistory().view({}, NOW)
    expect(steps.requestsPerS).toEqual([])
    expect(now).toMatchObject({ requestsPerS: null, ttftP50Ms: null, failedShare: null })
  })
})
