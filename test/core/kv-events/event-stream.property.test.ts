import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EventFrame } from '../../../src/core/kv-events/event-frames.ts'
import { catchUp, Engine, receive, heldBy, listenerOf, open } from './stream-engine.ts'

interface Step {
  readonly do: 'store' | 'evict' | 'clear' | 'restart' | 'check'
  readonly number: number
  readonly line: 'heard' | 'lost' | 'late' | 'twice'
}

const did = (what: Step['do'], number = 1, line: Step['line'] = 'heard'): Step => ({ do: what, number, line })

/** Regressions: after a restart, a batch of the old process arrives with the number that is expected next. */
const oldLives: readonly (readonly Step[])[] = [
  [did('store', 1, 'late'), did('restart'), did('check'), did('store', 2, 'lost'), did('store', 3)],
  [did('store', 1, 'late'), did('check'), did('restart'), did('check'), did('store', 2, 'lost'), did('store', 3)],
  [
    did('store', 1),
    did('store', 2, 'late'),
    did('restart'),
    did('store', 3, 'lost'),
    did('check'),
    did('store', 4, 'lost'),
    did('store', 5),
  ],
]

describe('EventStream on an unreliable connection', () => {
  const number = fc.integer({ min: 1, max: 8 })
  const step: fc.Arbitrary<Step> = fc.record({
    do: fc.oneof(
      { weight: 6, arbitrary: fc.constant('store' as const) },
      { weight: 4, arbitrary: fc.constant('evict' as const) },
      fc.constant('clear' as const),
      fc.constant('restart' as const),
      fc.constant('check' as const),
    ),
    number,
    line: fc.oneof(
      { weight: 5, arbitrary: fc.constant('heard' as const) },
      fc.constant('lost' as const),
      fc.constant('late' as const),
      fc.constant('twice' as const),
    ),
  })

  it('EventStream equals the engine’s cache after any losses, delays, repeats and restarts, or is reported incomplete', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 50 }), fc.integer({ min: 1, max: 12 }), (steps, keep) => {
        const [stream, engine] = [open(), new Engine(keep)]
        catchUp(stream, engine)
        let late: EventFrame[] = []
        for (const { do: what, number: at, line } of steps) {
          if (what === 'restart') {
            engine.restart()
            // The host sees that its sockets closed.
            stream.connectionLost()
          } else if (what === 'check') catchUp(stream, engine)
          else {
            const batch =
              what === 'store'
                ? engine.cache.has(at)
                  ? null
                  : engine.store(at)
                : what === 'evict'
                  ? engine.cache.has(at)
                    ? engine.evict(at)
                    : null
                  : engine.clear()
            if (batch === null) continue
            // Batches that wait in a socket arrive before later ones.
            if (line === 'late') late.push(batch)
            else if (line !== 'lost') {
              for (const one of late) receive(stream, engine, one)
              late = []
              for (let times = line === 'twice' ? 2 : 1; times > 0; times--) receive(stream, engine, batch)
            }
          }
        }
        for (const one of late) receive(stream, engine, one)
        catchUp(stream, engine)
        const [held, cached] = [heldBy(stream), heldBy(listenerOf(engine.cache))]
        if (stream.isComplete) expect(held).toEqual(cached)
        else expect(cached).toEqual(expect.arrayContaining(held))
        if (keep === 12 && steps.length < 12) expect(stream.isComplete).toBe(true)
      }),
      { numRuns: 500, examples: oldLives.map((steps): [Step[], number] => [[...steps], 12]) },
    )
  })
})
