import { describe, expect, it } from 'vitest'
import { KeyShares } from '../../../src/core/overload/key-shares.ts'

describe('shares of keys', () => {
  it('a single key is never over its share', () => {
    const keys = new KeyShares()
    for (let at = 0; at < 100; at++) keys.charge('a', 10, at)
    expect(keys.isOver('a', 100)).toBe(false)
  })

  it('a key with most of the work is over its share, the other one is not', () => {
    const keys = new KeyShares()
    for (let at = 0; at < 100; at++) keys.charge('noisy', 10, at)
    keys.charge('quiet', 10, 100)
    expect([keys.isOver('noisy', 100), keys.isOver('quiet', 100)]).toEqual([true, false])
  })

  it('a key that has been idle for a minute counts for nobody', () => {
    const keys = new KeyShares()
    keys.charge('quiet', 1, 0)
    keys.charge('noisy', 10, 59_000)
    expect(keys.isOver('noisy', 59_000)).toBe(true)
    expect(keys.isOver('noisy', 61_000)).toBe(false)
  })

  it('old work does not count against a key', () => {
    const keys = new KeyShares()
    keys.charge('a', 100, 0)
    keys.charge('a', 0.1, 300_000)
    keys.charge('b', 1, 300_000)
    expect([keys.isOver('a', 300_000), keys.isOver('b', 300_000)]).toEqual([false, true])
  })

  it('shares of keys remembers a bounded number of keys', () => {
    const keys = new KeyShares()
    for (let at = 0; at < 10_000; at++) keys.charge(`k${at}`, 1, 0)
    expect(keys.active(0)).toBeLessThanOrEqual(4096)
  })
})
