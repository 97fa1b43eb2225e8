import { describe, expect, it } from 'vitest'
import { FirstByteLimit } from '../../../src/core/latency/first-byte-limit.ts'

/** Numbers in [0, 1) that look random and are the same in each run (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

const normal = (random: () => number): number =>
  Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())

/** Share of later measurements above the limit that 2,000 earlier ones give. */
function lateShare(measured: (random: () => number) => number): number {
  const random = randomOf(3)
  const limit = new FirstByteLimit()
  for (let at = 0; at < 2_000; at++) limit.add(100, measured(random))
  let late = 0
  for (let at = 0; at < 20_000; at++) if (measured(random) > limit.ratio! * 100) late++
  return late / 20_000
}

describe('the time after which a first byte is late', () => {
  it('the time after which a first byte is late is unknown until 64 predictions have come true', () => {
    const limit = new FirstByteLimit()
    for (let at = 0; at < 63; at++) limit.add(100, 120)
    expect(limit.ratio).toBeNull()
    limit.add(100, 120)
    expect(limit.ratio).toBeGreaterThan(1.2)
    expect(limit.ratio).toBeLessThan(1.5)
  })

  it('the time after which a first byte is late is exceeded by about one request in a hundred', () => {
    const share = lateShare((random) => 100 * Math.exp(0.3 * normal(random)))
    expect(share).toBeGreaterThan(0.003)
    expect(share).toBeLessThan(0.02)
  })

  it('the time after which a first byte is late does not follow predictions that are always wrong by the same factor', () => {
    const share = lateShare((random) => 800 * Math.exp(0.3 * normal(random)))
    expect(share).toBeLessThan(0.02)
  })

  it('the time after which a first byte is late stays, and finds the stalls, if five requests in a hundred stall', () => {
    const random = randomOf(5)
    const limit = new FirstByteLimit()
    for (let at = 0; at < 5_000; at++) limit.add(100, random() < 0.05 ? 5_000 : 100 * Math.exp(0.3 * normal(random)))
    expect(limit.ratio).toBeLessThan(3)
  })

  it('the time after which a first byte is late forgets the predictions of an untrained cost model within 500 requests', () => {
    const random = randomOf(11)
    const limit = new FirstByteLimit()
    for (let at = 0; at < 200; at++) limit.add(100, 100 * Math.exp(1.2 * normal(random)))
    expect(limit.ratio).toBeGreaterThan(8)
    for (let at = 0; at < 500; at++) limit.add(100, 100 * Math.exp(0.3 * normal(random)))
    expect(limit.ratio).toBeLessThan(2.3)
  })

  it('the time after which a first byte is late does not fall because late requests are never measured to their end', () => {
    const random = randomOf(7)
    const limit = new FirstByteLimit()
    const one = () => 100 * Math.exp(0.3 * normal(random))
    for (let at = 0; at < 2_000; at++) limit.add(100, one())
    const before = limit.ratio!
    for (let at = 0; at < 20_000; at++) {
      const measured = one()
      const until = limit.ratio! * 100
      if (measured > until) limit.addLater(100, until)
      else limit.add(100, measured)
    }
    expect(limit.ratio! / before).toBeGreaterThan(0.85)
  })

  it('the time after which a first byte is late takes nothing from an attempt that was aborted before it was late', () => {
    const limit = new FirstByteLimit()
    for (let at = 0; at < 64; at++) limit.add(100, 120)
    const before = limit.ratio
    for (let at = 0; at < 500; at++) limit.addLater(100, 5)
    expect(limit.ratio).toBe(before)
  })

  it('the time after which a first byte is late takes no measurement without a prediction', () => {
    const limit = new FirstByteLimit()
    for (let at = 0; at < 200; at++) limit.add(0, 120)
    for (let at = 0; at < 200; at++) limit.add(100, NaN)
    expect(limit.ratio).toBeNull()
  })
})
