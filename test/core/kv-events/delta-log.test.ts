import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Delta, DeltaLog } from '../../../src/core/kv-events/delta-log.ts'

const limits = { stepBlocks: 4, pendingBlocks: 12 }

/** State of a gateway that applies the steps. */
class Mirror {
  readonly blocks = new Set<number>()
  complete = false
  seq = 0

  take({ seq, reset, stored, removed, complete }: Delta): void {
    if (seq <= this.seq) return
    this.seq = seq
    if (reset) this.blocks.clear()
    for (let at = 0; at < removed.length; at += 2) this.blocks.delete(removed[at]!)
    for (let at = 0; at < stored.length; at += 2) this.blocks.add(stored[at]!)
    this.complete = complete
  }
}

function sendAll(log: DeltaLog, mirror: Mirror): void {
  while (log.isDue) {
    mirror.take(log.next(true, 0))
    log.acknowledged()
  }
}

describe('DeltaLog', () => {
  it('starts with a full snapshot, even if it is empty', () => {
    const log = new DeltaLog(limits)
    expect(log.isDue).toBe(true)
    expect(log.next(true, 0)).toMatchObject({ seq: 1, reset: true, complete: true, stored: new Uint32Array(0) })
  })

  it('DeltaLog sends no change that was undone before it was sent', () => {
    const log = new DeltaLog(limits)
    sendAll(log, new Mirror())
    log.hold(7, 1)
    log.drop(7, 1)
    expect(log.isDue).toBe(false)
  })

  it('DeltaLog sends one change per block, whatever the number of copies', () => {
    const log = new DeltaLog(limits)
    sendAll(log, new Mirror())
    log.hold(7, 1)
    log.hold(7, 1)
    expect(log.next(true, 0).stored).toEqual(Uint32Array.of(7, 1))
    log.acknowledged()
    log.drop(7, 1)
    expect(log.isDue).toBe(false)
    log.drop(7, 1)
    expect(log.next(true, 0).removed).toEqual(Uint32Array.of(7, 1))
  })

  it('DeltaLog repeats a step unchanged until it is acknowledged', () => {
    const log = new DeltaLog(limits)
    sendAll(log, new Mirror())
    log.hold(7, 1)
    const first = log.next(true, 0)
    log.hold(8, 1)
    expect(log.next(true, 5)).toBe(first)
    log.acknowledged()
    expect(log.next(true, 5).stored).toEqual(Uint32Array.of(8, 1))
  })

  it('DeltaLog marks only the last part of a snapshot as complete', () => {
    const log = new DeltaLog(limits)
    for (let block = 1; block <= 10; block++) log.hold(block, 0)
    const steps: Delta[] = []
    for (log.resync(); log.isDue; log.acknowledged()) steps.push(log.next(true, 0))
    expect(steps.map(({ reset, complete, stored }) => [reset, complete, stored.length / 2])).toEqual([
      [true, false, 4],
      [false, false, 4],
      [false, true, 2],
    ])
  })

  it('DeltaLog reports the age of the oldest pending change', () => {
    const log = new DeltaLog(limits)
    sendAll(log, new Mirror())
    log.hold(7, 1)
    log.changedAt(1000)
    log.changedAt(1500)
    expect(log.next(true, 1700).lagMs).toBe(700)
    log.acknowledged()
    expect(log.next(true, 1800).lagMs).toBe(0)
  })

  it('limits pending changes for a gateway that acknowledges none', () => {
    const log = new DeltaLog(limits)
    const mirror = new Mirror()
    sendAll(log, mirror)
    for (let round = 0; round < 50; round++) {
      for (let block = 0; block < 10; block++) log.hold(round * 10 + block, 0)
      for (let block = 0; block < 10; block++) log.drop(round * 10 - 10 + block, 0)
      expect(log.pending).toBeLessThanOrEqual(limits.pendingBlocks + 10)
    }
    sendAll(log, mirror)
    expect([...mirror.blocks].sort()).toEqual(Array.from({ length: 10 }, (_, at) => 490 + at).sort())
  })

  it('DeltaLog gives every gateway the same state after any losses, repeats and restarts', () => {
    const block = fc.integer({ min: 1, max: 30 })
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.record({ do: fc.constant('hold' as const), block }) },
      { weight: 4, arbitrary: fc.record({ do: fc.constant('drop' as const), block }) },
      {
        weight: 4,
        arbitrary: fc.record({
          do: fc.constantFrom('sent' as const, 'answer lost' as const, 'request lost' as const),
          block,
        }),
      },
      { weight: 1, arbitrary: fc.record({ do: fc.constantFrom('resync' as const, 'clear' as const), block }) },
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const log = new DeltaLog(limits)
        const mirror = new Mirror()
        const counts = new Map<number, number>()
        for (const { do: what, block: at } of steps) {
          const count = counts.get(at) ?? 0
          if (what === 'hold') {
            log.hold(at, 0)
            counts.set(at, count + 1)
          } else if (what === 'drop') {
            log.drop(at, 0)
            counts.set(at, Math.max(0, count - 1))
          } else if (what === 'clear') {
            log.clear()
            counts.clear()
          } else if (what === 'resync') log.resync()
          else {
            const delta = log.next(true, 0)
            if (what !== 'request lost') mirror.take(delta)
            if (what === 'sent') log.acknowledged()
          }
        }
        sendAll(log, mirror)
        expect([...mirror.blocks].sort()).toEqual([...counts].flatMap(([at, count]) => (count > 0 ? [at] : [])).sort())
        expect(log.size).toBe(mirror.blocks.size)
      }),
      { numRuns: 500 },
    )
  })
})
