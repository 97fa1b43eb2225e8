import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PrefillQueue, type QueuedPrefill } from '../../../src/core/pool/estimators/prefill-queue.ts'
import { prefillWork } from '../../../src/core/latency/prefill-work.ts'

describe('prefillWork', () => {
  // Test vectors of vllm production-stack#670, computed with its code, which returns -155 for (10, 20).
  it.each([
    [0, 0, 0],
    [1, 0, 1],
    [4, 0, 10],
    [1000, 0, 500_500],
    [1000, 256, 467_604],
    [1000, 1000, 0],
    [10, 20, 0],
    [10, -5, 55],
  ])('prefillWork of %i tokens with %i cached is %i', (prompt, cached, work) => {
    expect(prefillWork(prompt, cached)).toBe(work)
  })

  it('prefillWork is the sum of the positions that are not cached', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 400 }), fc.integer({ min: 0, max: 500 }), (prompt, cached) => {
        let sum = 0
        for (let at = Math.min(cached, prompt) + 1; at <= prompt; at++) sum += at
        expect(prefillWork(prompt, cached)).toBe(sum)
      }),
    )
  })
})

const of = (seconds: number, tokens = 1000) => ({ newTokens: tokens, work: prefillWork(tokens, 0), seconds })

/** Ends one pending entry, with or without a first token. */
function endOne(
  queue: PrefillQueue,
  pending: QueuedPrefill[],
  { do: how, which, now }: { readonly do: string; readonly which: number; readonly now: number },
): void {
  if (pending.length === 0) return
  const [ended] = pending.splice(which % pending.length, 1)
  if (how === 'firstToken') queue.firstToken(ended!, now)
  queue.abandon(ended!, now)
}

describe('PrefillQueue', () => {
  it('PrefillQueue adds booked work and drains with time, not below zero', () => {
    const queue = new PrefillQueue(() => {})
    queue.add(of(2), 1000)
    queue.add(of(3), 1500)
    expect(queue.seconds(1500)).toBeCloseTo(4.5)
    expect(queue.seconds(4000)).toBeCloseTo(2)
    expect(queue.seconds(60_000)).toBe(0)
    expect(queue.work).toBe(2 * 500_500)
  })

  it('PrefillQueue does not drain in advance: work booked after an idle hour counts in full', () => {
    const queue = new PrefillQueue(() => {})
    queue.add(of(2), 0)
    queue.add(of(3), 3_600_000)
    expect(queue.seconds(3_600_000)).toBe(3)
  })

  it('PrefillQueue starts the next prefill at a first token, however wrong the prediction was', () => {
    const queue = new PrefillQueue(() => {})
    const slow = queue.add(of(1), 0)
    queue.add(of(1), 0)
    queue.add(of(1), 0)
    expect(queue.seconds(10_000)).toBe(0)
    queue.firstToken(slow, 10_000)
    expect(queue.seconds(10_000)).toBe(2)
  })

  it('PrefillQueue removes the rest of an aborted prefill', () => {
    const queue = new PrefillQueue(() => {})
    const half = queue.add(of(2), 0)
    const later = queue.add(of(4), 0)
    queue.abandon(half, 1000)
    expect(queue.seconds(1000)).toBe(4)
    queue.abandon(later, 2000)
    expect([queue.seconds(2000), queue.work, queue.newTokens]).toEqual([0, 0, 0])
  })

  it('PrefillQueue does not keep later entries in memory because of an ended one', () => {
    const queue = new PrefillQueue(() => {})
    const ended = [1, 2, 3, 4].map((at) => queue.add(of(1), at))
    queue.abandon(ended[1]!, 10)
    for (const one of ended) queue.firstToken(one, 20)
    expect(ended.map(({ previous, next }) => [previous, next])).toEqual(ended.map(() => [null, null]))
  })

  it('PrefillQueue is exactly empty after any history with unstreamed responses, and never counts more than is pending', () => {
    const step = fc.record({
      do: fc.constantFrom('add' as const, 'add' as const, 'firstToken' as const, 'abandon' as const),
      which: fc.nat(),
      seconds: fc.integer({ min: 0, max: 9 }),
      streams: fc.constantFrom(true, false, undefined),
    })
    fc.assert(
      fc.property(fc.array(fc.tuple(step, fc.integer({ min: 0, max: 5000 })), { maxLength: 60 }), (steps) => {
        const queue = new PrefillQueue(() => {})
        const pending: QueuedPrefill[] = []
        let now = 0
        for (const [one, elapsed] of steps) {
          now += elapsed
          if (one.do === 'add') pending.push(queue.add({ ...of(one.seconds), streams: one.streams }, now))
          else endOne(queue, pending, { ...one, now })
          queue.settle(now)
          const counted = pending.filter(({ counts }) => counts)
          expect([queue.length, queue.newTokens, queue.isEmpty]).toEqual([
            counted.length,
            counted.reduce((sum, { newTokens }) => sum + newTokens, 0),
            counted.length === 0,
          ])
          expect(pending.filter(({ streams, counts }) => streams !== false && !counts)).toEqual([])
          expect(queue.seconds(now)).toBeGreaterThanOrEqual(0)
        }
        for (const one of pending) queue.abandon(one, now)
        expect([queue.length, queue.work, queue.newTokens, queue.seconds(now), queue.isEmpty]).toEqual([
          0,
          0,
          0,
          0,
          true,
        ])
      }),
      { numRuns: 300 },
    )
  })

  it('PrefillQueue is exactly empty after any history, whatever the order of ends, and never negative', () => {
    const step = fc.oneof(
      fc.record({
        do: fc.constant('add' as const),
        seconds: fc.double({ min: 0, max: 90, noNaN: true }),
        tokens: fc.integer({ min: 0, max: 200_000 }),
        streams: fc.constantFrom(true, undefined),
      }),
      fc.record({ do: fc.constant('firstToken' as const), which: fc.nat() }),
      fc.record({ do: fc.constant('abandon' as const), which: fc.nat() }),
    )
    fc.assert(
      fc.property(fc.array(fc.tuple(step, fc.integer({ min: 0, max: 5000 })), { maxLength: 60 }), (steps) => {
        const queue = new PrefillQueue(() => {})
        const pending: QueuedPrefill[] = []
        let now = 0
        for (const [one, elapsed] of steps) {
          now += elapsed
          if (one.do === 'add') pending.push(queue.add({ ...of(one.seconds, one.tokens), streams: one.streams }, now))
          else endOne(queue, pending, { ...one, now })
          expect(queue.work).toBe(pending.reduce((sum, { work }) => sum + work, 0))
          expect(queue.newTokens).toBe(pending.reduce((sum, { newTokens }) => sum + newTokens, 0))
          const booked = pending.reduce((sum, { micros }) => sum + micros, 0) / 1e6
          expect(queue.seconds(now)).toBeGreaterThanOrEqual(0)
          // The sum can only be higher if a first token is overdue.
          if (pending.every(({ streams }) => streams === undefined))
            expect(queue.seconds(now)).toBeLessThanOrEqual(booked + 1e-9)
        }
        for (const one of pending) queue.firstToken(one, now)
        expect([queue.work, queue.newTokens, queue.seconds(now)]).toEqual([0, 0, 0])
      }),
      { numRuns: 300 },
    )
  })
})
