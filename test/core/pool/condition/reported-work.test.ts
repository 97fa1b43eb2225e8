import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EngineStats } from '../../../../src/core/contract/engine-signal.ts'
import { ReportedWork } from '../../../../src/core/pool/condition/reported-work.ts'

type Work = NonNullable<EngineStats['work']>

const counted = (live: number, prefill: number | null = null): Work => ({
  total: live + (prefill ?? 0),
  live,
  prefill,
})
const reporting = (
  ...reports: readonly { at: number; work?: Work; running?: number; hasOthers?: boolean }[]
): ReportedWork => {
  const reported = new ReportedWork()
  for (const { at, work, running = 1, hasOthers = false } of reports)
    reported.observe({ stats: { running, ...(work === undefined ? {} : { work }) }, hasOthers, at })
  return reported
}
const since = 0
const isAtWork = (reported: ReportedWork, now: number, hasLongPrefill = false): boolean =>
  reported.isAtWork({ since, hasLongPrefill, now })

describe('counters of an engine', () => {
  it('counters of an engine that grow show that it works for others, for 2 s after the report', () => {
    const reported = reporting({ at: 0, work: counted(10) }, { at: 500, work: counted(11), hasOthers: true })
    expect(isAtWork(reported, 2_500)).toBe(true)
    expect(isAtWork(reported, 2_501)).toBe(false)
  })

  it('counters of an engine that grow by its own output excuse nothing, since that output does not arrive', () => {
    expect(isAtWork(reporting({ at: 0, work: counted(10) }, { at: 500, work: counted(11) }), 600, true)).toBe(false)
  })

  it('counters of an engine that only prefills excuse it while a long prefill waits', () => {
    const reported = reporting({ at: 0, work: counted(10, 100) }, { at: 500, work: counted(10, 200) })
    expect(isAtWork(reported, 600, true)).toBe(true)
    expect(isAtWork(reported, 600, false)).toBe(false)
    expect(isAtWork(reporting({ at: 0, work: counted(10, 100) }, { at: 500, work: counted(11, 200) }), 600, true)).toBe(
      false,
    )
  })

  it('counters of an engine that grew before its silence excuse nothing', () => {
    const reported = reporting({ at: -500, work: counted(10) }, { at: -1, work: counted(11), hasOthers: true })
    expect(isAtWork(reported, 100)).toBe(false)
  })

  it('counters of an engine excuse no silence of 10 s', () => {
    const reported = reporting({ at: 0, work: counted(10) }, { at: 9_900, work: counted(11), hasOthers: true })
    expect(isAtWork(reported, 9_999)).toBe(true)
    expect(isAtWork(reported, 10_000)).toBe(false)
  })

  it('counters of an engine stand still if reports of 1 s show no step while requests run', () => {
    const reported = reporting({ at: 0, work: counted(10) }, { at: 999, work: counted(10) })
    expect(reported.isStill(1_000)).toBe(false)
    reported.observe({ stats: { running: 1, work: counted(10) }, hasOthers: false, at: 1_000 })
    expect(reported.isStill(1_000)).toBe(true)
    expect(reported.isStill(3_001)).toBe(false)
  })

  it.each([
    ['no request runs', { at: 1_500, work: counted(10), running: 0 }],
    ['it has requests of others, whose prefill may run', { at: 1_500, work: counted(10), hasOthers: true }],
    ['its metrics have no counters', { at: 1_500 }],
    ['it has restarted', { at: 1_500, work: counted(3) }],
  ])('counters of an engine do not stand still if %s', (_, report) => {
    const reported = reporting({ at: 0, work: counted(10) }, report)
    expect(reported.isStill(1_500)).toBe(false)
    expect(isAtWork(reported, 1_500)).toBe(false)
  })

  it('counters of an engine that grow only at the end of a request never stand still', () => {
    const late = { total: 10, live: null, prefill: null }
    expect(reporting({ at: 0, work: late }, { at: 5_000, work: late }).isStill(5_000)).toBe(false)
  })

  const reports = fc.array(
    fc.record({
      afterMs: fc.integer({ min: 0, max: 3_000 }),
      output: fc.integer({ min: 0, max: 1 }),
      prefill: fc.integer({ min: 0, max: 1 }),
      running: fc.integer({ min: 0, max: 2 }),
      hasOthers: fc.boolean(),
      isMissing: fc.boolean(),
    }),
    { minLength: 1, maxLength: 20 },
  )

  it('counters of an engine are never evidence for both, nor after a missing or old report', () => {
    fc.assert(
      fc.property(reports, fc.integer({ min: 0, max: 4_000 }), (all, laterMs) => {
        const reported = new ReportedWork()
        let [at, output, prompt] = [0, 0, 0]
        for (const report of all) {
          at += report.afterMs
          output += report.output
          prompt += report.prefill
          const { running, hasOthers, isMissing } = report
          reported.observe({
            stats: { running, ...(isMissing ? {} : { work: counted(output, prompt) }) },
            hasOthers,
            at,
          })
        }
        const now = at + laterMs
        const isWorking = reported.isAtWork({ since: now - 9_999, hasLongPrefill: true, now })
        const isStill = reported.isStill(now)
        expect(isWorking && isStill && all.at(-1)!.hasOthers).toBe(false)
        if (all.at(-1)!.isMissing || laterMs > 2_000) expect([isWorking, isStill]).toEqual([false, false])
        if (isWorking) expect(all.some(({ prefill, hasOthers }) => hasOthers || prefill > 0)).toBe(true)
        if (isStill) expect(all.at(-1)!.running).toBeGreaterThan(0)
      }),
    )
  })

  it('counters of an engine excuse it whenever others’ work has grown within the last 2 s of a silence below 10 s', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 7_900 }), fc.integer({ min: 0, max: 2_000 }), (at, laterMs) => {
        const reported = reporting({ at: at - 1, work: counted(1) }, { at, work: counted(2), hasOthers: true })
        expect(isAtWork(reported, at + laterMs)).toBe(true)
      }),
    )
  })
})
