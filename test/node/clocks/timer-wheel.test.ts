import { describe, expect, it } from 'vitest'
import { SLOT_MS, TimerWheel, WheelEntry } from '../../../src/platform/node/timer-wheel.ts'

/** An entry that is added again until it is due, as deadlines are. */
class Due extends WheelEntry {
  readonly seen: number[] = []
  readonly #wheel: TimerWheel
  at: number

  constructor(wheel: TimerWheel, at: number) {
    super()
    this.#wheel = wheel
    this.at = at
  }

  override reached(now: number): void {
    this.seen.push(now)
    if (this.at - now > 2 * SLOT_MS) this.#wheel.add(this, this.at)
  }
}

describe('a timer wheel', () => {
  it('a timer wheel reports an entry in the slot before its time, once', () => {
    const wheel = new TimerWheel(1_000)
    const entry = new Due(wheel, 1_215)
    expect(wheel.add(entry, entry.at)).toBe(1_200)
    for (let now = 1_000; now < 3_000; now += 7) wheel.turn(now)
    expect(entry.seen).toHaveLength(1)
    expect(entry.seen[0]).toBeGreaterThanOrEqual(1_200)
    expect(entry.seen[0]).toBeLessThan(1_207)
  })

  it('a timer wheel keeps an entry that is many turns away, and one without an end', () => {
    const wheel = new TimerWheel(0)
    const hour = new Due(wheel, 3_600_000)
    const never = new Due(wheel, Infinity)
    wheel.add(hour, hour.at)
    wheel.add(never, never.at)
    let now = 0
    while (hour.at - (hour.seen.at(-1) ?? 0) > 2 * SLOT_MS && now < 4_000_000) wheel.turn((now += SLOT_MS))
    expect(hour.at - now).toBeLessThanOrEqual(2 * SLOT_MS)
    expect(hour.at - now).toBeGreaterThanOrEqual(0)
    expect(never.slot).toBeGreaterThan(0)
  })

  it('a timer wheel reports all entries after a pause that is longer than a turn', () => {
    const wheel = new TimerWheel(0)
    const entries = [50, 700, 9_000, 50_000].map((at) => new Due(wheel, at))
    for (const entry of entries) wheel.add(entry, entry.at)
    wheel.turn(120_000)
    for (const { seen } of entries) expect(seen).toEqual([120_000])
  })

  it('a timer wheel takes entries after a pause in which it was not turned', () => {
    const wheel = new TimerWheel(0)
    const entry = new Due(wheel, 500_300)
    wheel.add(entry, entry.at)
    for (let now = 500_000; now < 500_400; now += SLOT_MS) wheel.turn(now)
    expect(entry.at - entry.seen.at(-1)!).toBeLessThanOrEqual(2 * SLOT_MS)
    expect(entry.slot).toBe(-1)
  })

  it('a timer wheel does not report an entry that another one removes in the same slot', () => {
    const wheel = new TimerWheel(0)
    const second = new Due(wheel, 105)
    const first = new (class extends WheelEntry {
      override reached(): void {
        wheel.remove(second)
      }
    })()
    wheel.add(first, 104)
    wheel.add(second, second.at)
    wheel.turn(400)
    expect(second.seen).toEqual([])
    expect(second.slot).toBe(-1)
  })
})
