import { describe, expect, it } from 'vitest'
import { slowEngine } from '../../../packages/bench/recovery/slow-engine.ts'

const ejections = (events: readonly string[]): string[] => events.filter((event) => / engine_(down|up) /.test(event))

describe('an engine that becomes slow, in virtual time', () => {
  it('an engine that becomes ten times slower is ejected once, and used again when it is as fast as before', () => {
    const alone = slowEngine({ factor: 1, seed: 2, isAbsent: true })
    const { placed, siblingsP99Ms, shareAfter, events } = slowEngine({ factor: 10, seed: 2 })
    expect(ejections(events).map((event) => event.split(' ').slice(1))).toEqual([
      ['engine-2', 'engine_down', 'slow'],
      ['engine-2', 'engine_up', 'slow'],
    ])
    const [out, back] = ejections(events).map((event) => Number(event.split(' ')[0]))
    expect(out).toBeLessThan(40)
    expect(back).toBeGreaterThan(120)
    expect(back).toBeLessThan(124)
    expect(placed).toBeLessThan(15)
    expect(shareAfter).toBeGreaterThan(0.15)
    expect(siblingsP99Ms).toBeLessThan(1.2 * alone.siblingsP99Ms)
  })

  it.each([1, 3])('an engine that becomes %i times slower is not ejected', (factor) => {
    expect(ejections(slowEngine({ factor, seed: 3 }).events)).toEqual([])
  })
})
