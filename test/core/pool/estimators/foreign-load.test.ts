import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ForeignLoad, type OwnLoad } from '../../../../src/core/pool/estimators/foreign-load.ts'
import { sharedProbeMs } from '../../../../src/core/pool/pool-engines/probe-intervals.ts'

/** Own prefill work, seconds. */
const done = (seconds: number) => ({ prefilledS: () => seconds })

const PREFILL_S = 0.5

function own(at: number, some: Partial<OwnLoad> = {}): OwnLoad {
  return { activeBlocks: 0, queued: 0, usualPrefillS: PREFILL_S, prefilledS: 0, at, ...some }
}

const report = (running: number, waiting = 0) => ({ running, waiting, usedBlocks: null })

describe('load from other sources', () => {
  it('load from other sources is exactly zero where all load is the gateway’s own, reported up to half a second early or late', () => {
    const events = fc.array(
      fc.record({
        kind: fc.constantFrom('begin', 'end', 'report'),
        afterMs: fc.integer({ min: 0, max: 3_000 }),
        lagMs: fc.integer({ min: 0, max: 499 }),
        waiting: fc.nat(3),
      }),
      { maxLength: 60 },
    )
    fc.assert(
      fc.property(events, (given) => {
        const load = new ForeignLoad()
        const counts: { at: number; count: number }[] = [{ at: -Infinity, count: 0 }]
        let now = 0
        for (const { kind, afterMs, lagMs, waiting } of given) {
          now += afterMs
          const count = counts.at(-1)!.count
          if (kind === 'begin') {
            load.began(1, now)
            counts.push({ at: now, count: count + 1 })
          } else if (kind === 'end' && count > 0) {
            load.ended(1, now)
            counts.push({ at: now, count: count - 1 })
          } else if (kind === 'report') {
            const seen = counts.findLast(({ at }) => at <= now - lagMs)!.count
            const waits = Math.min(waiting, seen)
            load.observed(report(seen - waits, waits), own(now, { queued: count }))
          }
          expect(load.estimate(now, done(0))).toEqual({ requests: 0, waiting: 0, queuedS: 0, blocks: 0 })
          expect(load.isPresent).toBe(false)
        }
      }),
    )
  })

  it('load from other sources is never negative, and never more work than its requests have', () => {
    const reports = fc.array(
      fc.record({
        running: fc.nat(20),
        waiting: fc.nat(20),
        usedBlocks: fc.option(fc.nat(1_000)),
        afterMs: fc.integer({ min: 1, max: 20_000 }),
        prefilledS: fc.double({ min: 0, max: 3, noNaN: true }),
        queued: fc.nat(5),
      }),
      { minLength: 1, maxLength: 30 },
    )
    fc.assert(
      fc.property(reports, fc.integer({ min: 0, max: 30_000 }), (given, ageMs) => {
        const load = new ForeignLoad()
        let [now, prefilledS, max] = [0, 0, 0]
        for (const { afterMs, queued, ...one } of given) {
          now += afterMs
          prefilledS += one.prefilledS
          max = Math.max(max, one.running + one.waiting)
          load.observed(one, own(now, { queued, prefilledS, activeBlocks: 50 }))
        }
        const { requests, waiting, queuedS, blocks } = load.estimate(now + ageMs, done(prefilledS))
        expect(Math.min(requests, waiting, queuedS, blocks)).toBeGreaterThanOrEqual(0)
        expect(requests).toBeLessThanOrEqual(max + 1e-9)
        expect(queuedS).toBeLessThanOrEqual(2 * max * PREFILL_S + 1e-9)
      }),
    )
  })

  it('load from other sources is the reported number at the report, and the mean of the reports later', () => {
    const load = new ForeignLoad()
    for (let at = 0; at < 40; at++) load.observed(report(at % 2 === 0 ? 2 : 6), own(at * 10_000))
    expect(load.estimate(390_000, done(0)).requests).toBe(6)
    const later = load.estimate(420_000, done(0)).requests
    expect(later).toBeGreaterThan(3.9)
    expect(later).toBeLessThan(5)
  })

  it('load from other sources counts the prefill of a request that appeared between two reports, until its time has passed', () => {
    const load = new ForeignLoad()
    load.observed(report(3), own(0))
    load.observed(report(3), own(100_000))
    load.observed(report(4), own(100_200))
    expect(load.estimate(100_200, done(0)).queuedS).toBeCloseTo(0.4)
    expect(load.estimate(100_700, done(0)).queuedS).toBeLessThan(0.01)
  })

  it('load from other sources keeps that prefill while the engine computes own prompts, and drops it at the first token of a later one', () => {
    const load = new ForeignLoad()
    load.observed(report(0), own(0))
    load.observed(report(1), own(200))
    expect(load.estimate(500, done(0.3)).queuedS).toBeGreaterThan(0.4)
    load.firstToken(150)
    expect(load.estimate(500, done(0.3)).queuedS).toBeGreaterThan(0.4)
    load.firstToken(250)
    expect(load.estimate(500, done(0.3)).queuedS).toBeLessThan(0.05)
  })

  it('load from other sources has the waiting requests that are not the gateway’s own, each a usual prefill', () => {
    const load = new ForeignLoad()
    for (let at = 0; at < 2; at++) load.began(1, 0)
    load.observed(report(6, 4), own(10_000, { queued: 1 }))
    expect(load.estimate(10_000, done(0)).waiting).toBeCloseTo((4 * 8) / 9)
  })

  it('ends being present when other sources have been gone for a while', () => {
    const load = new ForeignLoad()
    load.observed(report(4), own(0))
    for (let at = 1; at < 30; at++) load.observed(report(0), own(at * 1_000))
    expect(load.isPresent).toBe(true)
    for (let at = 30; at < 120; at++) load.observed(report(0), own(at * 1_000))
    expect(load.isPresent).toBe(false)
  })
})

it('shared engines are probed every 100 ms to 1 s, and more than 80 times a second in total only from 80 engines on', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 2_000 }), (engines) => {
      const everyMs = sharedProbeMs(engines)
      expect(everyMs).toBeGreaterThanOrEqual(100)
      expect(everyMs).toBeLessThanOrEqual(1_000)
      expect((engines * 1_000) / everyMs).toBeLessThanOrEqual(Math.max(80, engines) + 1e-9)
      expect(sharedProbeMs(engines + 1)).toBeGreaterThanOrEqual(everyMs)
    }),
  )
  expect([1, 8, 16, 40, 80, 500].map(sharedProbeMs)).toEqual([100, 100, 200, 500, 1_000, 1_000])
})
