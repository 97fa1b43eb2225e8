import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { StalledStreams, stallErrorMs } from '../../../../src/core/pool/condition/stalled-streams.ts'

const REPORT_MS = 300
const ERROR_MS = stallErrorMs(REPORT_MS)
const IDLE = { prefilledS: 0, longUntil: -Infinity }
const paceAt = (now: number, prefilledS = 0) => ({ reportMs: REPORT_MS, prefilledS, now })

describe('running streams of an engine', () => {
  const running = (...begunAt: readonly number[]): StalledStreams => {
    const streams = new StalledStreams()
    for (const [at, now] of begunAt.entries()) streams.begun(`s${at}`, paceAt(now))
    return streams
  }

  it('running streams of an engine are overdue once several are silent for longer than usual, since the later one', () => {
    const dueAt = 100 + REPORT_MS + ERROR_MS
    expect(running(0, 100, 900).overdueSince(dueAt, IDLE)).toBeNull()
    expect(running(0, 100, 900).overdueSince(dueAt + 1, IDLE)).toBe(dueAt)
  })

  it('running streams of an engine are not overdue while one of them moves', () => {
    const streams = running(0, 0, 0)
    streams.moved('s2', paceAt(5_000))
    expect(streams.overdueSince(5_000 + ERROR_MS, IDLE)).toBeNull()
    expect(streams.overdueSince(5_001 + ERROR_MS, IDLE)).toBe(5_000 + ERROR_MS)
  })

  it('running streams of an engine need more time if there is only one', () => {
    expect(running(0).overdueSince(REPORT_MS + 2 * ERROR_MS, IDLE)).toBeNull()
    expect(running(0).overdueSince(REPORT_MS + 4 * ERROR_MS + 1, IDLE)).not.toBeNull()
  })

  it('running streams of an engine wait for the prefill work that the engine does meanwhile', () => {
    const prefillS = 30
    const work = { ...IDLE, prefilledS: prefillS }
    const dueAt = REPORT_MS + 1000 * prefillS + ERROR_MS
    expect(running(0, 0).overdueSince(dueAt, work)).toBeNull()
    expect(running(0, 0).overdueSince(dueAt + 1, work)).toBe(dueAt)
  })

  it('running streams of an engine wait while a long prefill may run, whose prediction may be wrong', () => {
    const work = { ...IDLE, longUntil: 10_000 }
    expect(running(0, 0).overdueSince(10_000, work)).toBeNull()
    expect(running(0, 0).overdueSince(10_001, work)).toBe(10_000)
  })

  it('running streams of an engine are no evidence after a trial was answered, until they move again', () => {
    const streams = running(0, 0)
    expect(streams.overdueSince(10_000, IDLE)).not.toBeNull()
    streams.excuse(10_000)
    expect(streams.overdueSince(60_000, IDLE)).toBeNull()
    streams.moved('s0', paceAt(60_000))
    streams.moved('s1', paceAt(60_000))
    expect(streams.overdueSince(70_000, IDLE)).not.toBeNull()
  })

  it('running streams of an engine stay as evidence if their clients leave while they are overdue, until the engine moves', () => {
    const streams = running(0, 0, 0)
    for (const key of ['s0', 's1', 's2']) streams.abandoned(key, 10_000, IDLE)
    expect(streams.overdueSince(60_000, IDLE)).not.toBeNull()
    streams.begun('later', paceAt(60_000))
    streams.completed('later', 60_100)
    expect(streams.overdueSince(90_000, IDLE)).toBeNull()
  })

  it('running streams of an engine leave nothing behind if their clients leave before', () => {
    const streams = running(0, 0)
    for (const key of ['s0', 's1']) streams.abandoned(key, 200, IDLE)
    expect(streams.size).toBe(0)
    expect(streams.overdueSince(60_000, IDLE)).toBeNull()
  })

  it('running streams of an engine are never overdue while an engine moves one of them in time, whatever clients do', () => {
    const step = fc.tuple(fc.nat(8), fc.constantFrom('begun', 'moved', 'completed', 'abandoned'))
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const streams = new StalledStreams()
        let now = 0
        for (const [at, kind] of steps) {
          now += ERROR_MS / 2
          streams.moved('steady', paceAt(now))
          const key = `s${at}`
          if (kind === 'begun' || kind === 'moved') streams[kind](key, paceAt(now))
          else if (kind === 'abandoned') streams.abandoned(key, now, IDLE)
          else streams.completed(key, now)
          expect(streams.overdueSince(now + ERROR_MS / 2, IDLE)).toBeNull()
        }
      }),
    )
  })
})
