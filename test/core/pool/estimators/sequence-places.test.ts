import { describe, expect, it } from 'vitest'
import { SequencePlaces } from '../../../../src/core/pool/estimators/sequence-places.ts'

/** An engine with this many places, each request of `usualMs`, seen by the gateway. */
function engine() {
  const places = new SequencePlaces()
  let now = 0
  const starts: number[] = []
  const begin = () => {
    places.booked(1, true)
    places.started(1, now)
    starts.push(now)
  }
  const end = () => places.ended(1, true, { startedAt: starts.shift()!, now })
  /** A request that waits until another ends. */
  const wait = ({ bookedAt = now, predictedMs = 100 } = {}) => {
    places.booked(1, true)
    now += 1000
    end()
    now += 20
    places.started(1, now)
    starts.push(now)
    return places.firstToken({ bookedAt, predictedMs, now })
  }
  return { places, begin, end, wait, at: () => now }
}

const full = (count: number) => {
  const one = engine()
  for (let begun = 0; begun < count; begun++) one.begin()
  for (let times = 0; times < 3; times++) one.wait()
  return one
}

describe('places of an engine', () => {
  it('places of an engine are unknown until three requests waited for the end of another', () => {
    const { places, begin, wait } = engine()
    begin()
    begin()
    for (let times = 0; times < 3; times++) {
      expect(places.limit).toBe(Infinity)
      expect(wait()).toBe(true)
    }
    expect(places.limit).toBe(2)
  })

  it('places of an engine are not learned from first tokens that came as predicted', () => {
    const { places, begin, wait } = engine()
    begin()
    for (let times = 0; times < 5; times++) expect(wait({ predictedMs: 1000 })).toBe(false)
    expect(places.limit).toBe(Infinity)
  })

  it('places of an engine are not learned while responses without a visible first token may hold them', () => {
    const { places, begin, wait } = engine()
    places.booked(1, false)
    begin()
    for (let times = 0; times < 5; times++) wait()
    expect(places.limit).toBe(Infinity)
  })

  it('places of an engine are forgotten when more requests run, and when the engine restarts', () => {
    const { places, begin } = full(2)
    begin()
    expect(places.limit).toBe(Infinity)
    const other = full(2).places
    other.restarted()
    expect(other.limit).toBe(Infinity)
  })

  it('places of an engine are learned from reports of waiting requests if the engine has memory', () => {
    const places = new SequencePlaces()
    for (let now = 0; now < 5; now++) places.reported(4, 3, { hasMemory: false, now })
    expect(places.limit).toBe(Infinity)
    for (let now = 0; now < 3; now++) places.reported(4, 3, { hasMemory: true, now })
    expect(places.limit).toBe(4)
    places.reported(5, 3, { hasMemory: true, now: 9 })
    expect(places.limit).toBe(Infinity)
  })

  it('places of an engine are measured again after five minutes while they are unknown', () => {
    const places = new SequencePlaces()
    places.reported(9, 0, { hasMemory: true, now: 0 })
    for (let minute = 6; minute <= 24; minute += 6) places.reported(4, 3, { hasMemory: true, now: minute * 60_000 })
    for (let now = 0; now < 3; now++) places.reported(4, 3, { hasMemory: true, now: 24 * 60_000 + now })
    expect(places.limit).toBe(4)
  })

  it('places of an engine predict no wait while one is free, and the mean time between ends for each request before', () => {
    const { places, at, end } = full(4)
    expect(places.excess(0)).toBe(0)
    const first = places.waitS(1, at())
    expect(first).toBeGreaterThan(0)
    expect(places.waitS(2, at())).toBeCloseTo(2 * first, 9)
    end()
    expect(places.waitS(1, at())).toBe(0)
  })
})
