import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { BusyPeriod, BusyPeriodSample } from '../../../src/core/latency/busy-period.ts'
import { PrefillQueue, type QueuedPrefill } from '../../../src/core/pool/estimators/prefill-queue.ts'

const RTT_S = 0
const of = (tokens: number, seconds = 1) => ({ newTokens: tokens, work: tokens, seconds })

/** A queue and its samples; prompts have as many attention pairs as tokens. */
function engine() {
  const taught: BusyPeriodSample[] = []
  const queue = new PrefillQueue((sample) => taught.push(sample))
  const tell = (stretch: BusyPeriod | null, sizes: readonly number[], rttS = RTT_S) =>
    sizes.forEach((tokens) => stretch!.record({ newTokens: tokens, pairs: tokens }, rttS))
  return { queue, taught, tell }
}

describe('a busy period', () => {
  it('a busy period of one prompt lasts from its booking to its first token, minus the network round trip', () => {
    const { queue, taught, tell } = engine()
    tell(queue.firstToken(queue.add(of(3000), 1000), 4000), [3000], 0.25)
    expect(taught).toEqual([{ newTokens: 3000, pairs: 3000, seconds: 2.75, at: 4000 }])
  })

  it('a busy period includes both prompts if one step returned their first tokens', () => {
    const { queue, taught, tell } = engine()
    const [one, other] = [queue.add(of(3000), 0), queue.add(of(5000), 0)]
    const stretch = queue.firstToken(one, 4000)
    expect(queue.firstToken(other, 4000)).toBe(stretch)
    tell(stretch, [3000])
    expect(taught).toEqual([])
    tell(stretch, [5000])
    expect(taught).toEqual([{ newTokens: 4000, pairs: 4000, seconds: 2, at: 4000 }])
  })

  it('shares engine steps among small prompts', () => {
    const { queue, taught, tell } = engine()
    const all = [256, 256, 512].map((tokens) => queue.add(of(tokens), 0))
    const [stretch] = all.map((one) => queue.firstToken(one, 500))
    tell(stretch!, [256, 256, 512])
    expect(taught).toEqual([{ newTokens: 1024, pairs: 1024, seconds: 0.5, at: 500 }])
  })

  it('ends under load after the last first token of a step, even if its prompts have ended by then', () => {
    const { queue, taught, tell } = engine()
    const [one, other, next] = [queue.add(of(8000), 0), queue.add(of(8000), 0), queue.add(of(9000), 0)]
    const first = queue.firstToken(one, 2000)
    expect(queue.firstToken(other, 2002)).toBe(first)
    tell(first, [8000, 8000])
    const second = queue.firstToken(next, 5002)
    expect(second).not.toBe(first)
    // The period started with a first token, so it includes no round trip.
    tell(second, [9000], 0.25)
    expect(taught).toEqual([
      { newTokens: 8000, pairs: 8000, seconds: 1.001, at: 2002 },
      { newTokens: 9000, pairs: 9000, seconds: 3, at: 5002 },
    ])
  })

  it('a busy period yields no sample if one of its prompts returned no first token', () => {
    const { queue, taught, tell } = engine()
    const [, seen] = [queue.add(of(1000), 0), queue.add(of(1000), 0)]
    tell(queue.firstToken(seen, 2000), [1000])
    queue.add(of(1000), 90_000)
    expect(taught).toEqual([])
  })

  it('a busy period yields no sample if one of its prompts was aborted', () => {
    const { queue, taught, tell } = engine()
    const [quitter, later] = [queue.add(of(1000), 0), queue.add(of(1000), 0)]
    queue.abandon(quitter, 500)
    tell(queue.firstToken(later, 1500), [1000])
    expect(taught).toEqual([])
  })

  it('a busy period yields no sample if the size of one of its prompts is unknown', () => {
    const { queue, taught } = engine()
    queue.firstToken(queue.add(of(1000), 0), 1500)!.record(null, RTT_S)
    expect(taught).toEqual([])
  })

  it('a busy period ignores a silent prompt that was overdue when the period started', () => {
    const { queue, taught, tell } = engine()
    const silent = queue.add(of(1000), 0)
    tell(queue.firstToken(queue.add(of(1000), 1500), 2400), [1000])
    queue.abandon(silent, 2500)
    queue.add(of(1000), 9000)
    expect(taught).toMatchObject([{ seconds: 0.9, at: 2400 }])
  })

  it('a busy period is measured on a busy engine slower than predicted, whose predicted queue is empty at each arrival', () => {
    const { queue, taught, tell } = engine()
    const [one, other, third] = [
      queue.add(of(2100, 0.2), 0),
      queue.add(of(3000, 0.3), 1500),
      queue.add(of(3900, 0.4), 3500),
    ]
    const stretch = queue.firstToken(one, 2000)
    expect(queue.firstToken(other, 5000)).toBe(stretch)
    expect(queue.firstToken(third, 9000)).toBe(stretch)
    tell(stretch, [2100, 3000, 3900])
    expect(taught).toMatchObject([{ newTokens: 3000, seconds: 3, at: 9000 }])
  })

  it('a busy period starts after a silent prompt, but includes no prompt that arrived during another prefill', () => {
    const { queue, taught, tell } = engine()
    const silent = queue.add(of(1000, 1), 0)
    const [one, other] = [queue.add(of(3000, 0.3), 5000), queue.add(of(3000, 0.3), 6000)]
    const stretch = queue.firstToken(one, 8000)
    expect(queue.firstToken(other, 11_000)).toBe(stretch)
    queue.abandon(silent, 30_000, true)
    tell(stretch, [3000, 3000])
    queue.add(of(1000), 40_000)
    expect(taught).toMatchObject([{ newTokens: 3000, seconds: 3, at: 11_000 }])
  })

  it('a busy period does not start with a prompt that arrived during an aborted prefill', () => {
    const { queue, taught, tell } = engine()
    const [quitter, later] = [queue.add(of(1000, 0.1), 0), queue.add(of(1000, 0.1), 500)]
    queue.abandon(quitter, 800)
    tell(queue.firstToken(later, 1500), [1000])
    expect(taught).toEqual([])
  })

  it.each([0.1, 1, 10])(
    'a busy period finds the true pace of an engine that batches whatever comes, however long its queue, believed %d times as slow',
    (belief) => {
      const arrivals = fc.array(
        fc.record({ afterMs: fc.integer({ min: 0, max: 800 }), tokens: fc.integer({ min: 2048, max: 9000 }) }),
        { minLength: 30, maxLength: 60 },
      )
      fc.assert(
        fc.property(arrivals, (coming) => {
          const samples = batchingEngine(coming, belief)
          expect(samples.length).toBeGreaterThan(0)
          const took = samples.reduce((sum, { seconds }) => sum + seconds, 0)
          const work = samples.reduce((sum, { newTokens }) => sum + newTokens, 0)
          // Work at the edges of a period can belong to a neighbour: one step of 8192 tokens among several.
          expect(took / (work * TOKEN_S)).toBeGreaterThan(0.8)
          expect(took / (work * TOKEN_S)).toBeLessThan(1.25)
        }),
        { numRuns: 100 },
      )
    },
  )
})

const TOKEN_S = 1e-4
const STEP_TOKENS = 8192

/** First come, first served, in steps of limited tokens that can divide a prompt. Returns the samples. */
function batchingEngine(
  coming: readonly { readonly afterMs: number; readonly tokens: number }[],
  belief: number,
): BusyPeriodSample[] {
  const { queue, taught, tell } = engine()
  const waiting: { left: number; readonly tokens: number; readonly queued: QueuedPrefill }[] = []
  const ended: { readonly tokens: number; readonly stretch: BusyPeriod }[] = []
  let arrivesAt = 0
  const due = coming.map(({ afterMs, tokens }) => ({ at: (arrivesAt += afterMs), tokens }))
  let now = 0
  while (due.length > 0 || waiting.length > 0) {
    if (waiting.length === 0) now = Math.max(now, due[0]!.at)
    const begin = (until: number): void => {
      while (due[0] !== undefined && due[0].at <= until) {
        const { at, tokens } = due.shift()!
        waiting.push({ left: tokens, tokens, queued: queue.add(of(tokens, tokens * TOKEN_S * belief), at) })
      }
    }
    begin(now)
    let budget = STEP_TOKENS
    for (const one of waiting) {
      const chunk = Math.min(one.left, budget)
      one.left -= chunk
      budget -= chunk
    }
    const endsAt = now + (STEP_TOKENS - budget) * TOKEN_S * 1000
    begin(endsAt - 0.001)
    now = endsAt
    while (waiting[0]?.left === 0) {
      const { tokens, queued } = waiting.shift()!
      ended.push({ tokens, stretch: queue.firstToken(queued, now)! })
    }
  }
  for (const { tokens, stretch } of ended) tell(stretch, [tokens])
  return taught
}
