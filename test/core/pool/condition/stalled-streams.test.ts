import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type RunningStream,
  StalledStreams,
  stallErrorMs,
} from '../../../../src/core/pool/condition/stalled-streams.ts'

const REPORT_MS = 300
const ERROR_MS = stallErrorMs(REPORT_MS)
const IDLE = { prefilledS: 0, longUntil: -Infinity }
const paceAt = (now: number, prefilledS = 0) => ({ reportMs: REPORT_MS, prefilledS, now })

describe('running streams of an engine', () => {
  const begun = (...begunAt: readonly number[]): [StalledStreams, ...RunningStream[]] => {
    const streams = new StalledStreams()
    return [streams, ...begunAt.map((now) => streams.begun(paceAt(now)))]
  }
  const running = (...begunAt: readonly number[]): StalledStreams => begun(...begunAt)[0]

  it('running streams of an engine are overdue once several are silent for longer than usual, since the later one', () => {
    const dueAt = 100 + REPORT_MS + ERROR_MS
    expect(running(0, 100, 900).overdueSince(dueAt, IDLE)).toBeNull()
    expect(running(0, 100, 900).overdueSince(dueAt + 1, IDLE)).toBe(dueAt)
  })

  it('running streams of an engine are not overdue while one of them moves', () => {
    const [streams, , , last] = begun(0, 0, 0)
    streams.moved(last!, paceAt(5_000))
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
    const [streams, one, other] = begun(0, 0)
    expect(streams.overdueSince(10_000, IDLE)).not.toBeNull()
    streams.excuse(10_000)
    expect(streams.overdueSince(60_000, IDLE)).toBeNull()
    streams.moved(one!, paceAt(60_000))
    streams.moved(other!, paceAt(60_000))
    expect(streams.overdueSince(70_000, IDLE)).not.toBeNull()
  })

  it('running streams of an engine stay as evidence if their clients leave while they are overdue, until the engine moves', () => {
    const [streams, ...all] = begun(0, 0, 0)
    for (const stream of all) streams.abandoned(stream, 10_000, IDLE)
    expect(streams.overdueSince(60_000, IDLE)).not.toBeNull()
    streams.completed(streams.begun(paceAt(60_000)), 60_100)
    expect(streams.overdueSince(90_000, IDLE)).toBeNull()
  })

  it('running streams of an engine leave nothing behind if their clients leave before', () => {
    const [streams, ...all] = begun(0, 0)
    for (const stream of all) streams.abandoned(stream, 200, IDLE)
    expect(streams.size).toBe(0)
    expect(streams.overdueSince(60_000, IDLE)).toBeNull()
  })

  it('running streams of an engine are never overdue while an engine moves one of them in time, whatever clients do', () => {
    const step = fc.tuple(fc.nat(8), fc.constantFrom('begun', 'moved', 'completed', 'abandoned'))
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const streams = new StalledStreams()
        const others = new Map<number, RunningStream>()
        let steady: RunningStream | null = null
        let now = 0
        for (const [at, kind] of steps) {
          now += ERROR_MS / 2
          steady = streams.moved(steady, paceAt(now))
          const other = others.get(at) ?? null
          if (kind === 'begun') others.set(at, other ?? streams.begun(paceAt(now)))
          else if (kind === 'moved') others.set(at, streams.moved(other, paceAt(now)))
          else if (other !== null) {
            others.delete(at)
            if (kind === 'abandoned') streams.abandoned(other, now, IDLE)
            else streams.completed(other, now)
          }
          expect(streams.overdueSince(now + ERROR_MS / 2, IDLE)).toBeNull()
        }
      }),
    )
  })
})
