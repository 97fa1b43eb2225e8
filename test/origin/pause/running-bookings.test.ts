import { describe, expect, it } from 'vitest'
import { RunningBookings } from '../../../src/origin/pause/running-bookings.ts'

describe('RunningBookings', () => {
  it('fences the bookings that still run, whatever the order of the others’ ends', () => {
    const running = new RunningBookings()
    const fenced: string[] = []
    const all = ['a', 'b', 'c', 'd', 'e'].map((name) => {
      const booking = { runningIndex: -1, isAt: () => name !== 'e', fence: () => void fenced.push(name) }
      running.add(booking)
      return booking
    })
    for (const at of [1, 1, 4, 0]) running.delete(all[at]!)
    running.add(all[4]!)
    expect(running.fence({ cluster: 'x', pool: 'm', engines: [] })).toBe(2)
    expect(fenced.toSorted()).toEqual(['c', 'd'])
  })
})
