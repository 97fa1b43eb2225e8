import { describe, expect, it } from 'vitest'
import { readAdmission } from '../../../src/core/contract/decode.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { Refusal } from '../../../src/core/contract/refusal.ts'
import { EdgeRefusals } from '../../../src/core/overload/edge-refusals.ts'
import { RefusalRate } from '../../../src/core/overload/refusal-rate.ts'

const request = (changes: Partial<Admission> = {}): Admission =>
  readAdmission({ id: 'r', promptTokens: 500, ...changes })
const refusal = (changes: Partial<Refusal> = {}): Refusal => ({
  reason: 'overloaded',
  limit: 'itl',
  detail: 'no room',
  retryAfterMs: 1_000,
  refusalsPerS: 1_000,
  ...changes,
})

/** Number of `calls` requests, 1 ms apart, that an edge sends to a pool which refuses all. */
function sentBy(edge: EdgeRefusals, calls: number, changes: Partial<Admission> = {}, answer = refusal()): number {
  let sent = 0
  for (let now = 0; now < calls; now++) {
    if (edge.answer(request(changes), now) !== null) continue
    sent += 1
    edge.answered(request(changes), answer, now)
  }
  return sent
}

describe('an edge before a pool that refuses 1,000 requests per second', () => {
  it('an edge before a full pool sends 100 of them, and reports the others once', () => {
    const edge = new EdgeRefusals(() => 0.5)
    const sent = sentBy(edge, 1_000)
    expect(sent).toBeGreaterThanOrEqual(95)
    expect(sent).toBeLessThanOrEqual(105)
    const reported = edge.take()
    expect([reported, edge.take()]).toEqual([1_000 - sent, 0])
    edge.giveBack(reported)
    expect(edge.take()).toBe(reported)
  })

  it('an edge before a full pool refuses with the answer of the pool and a retry time around that of the pool', () => {
    for (const [draw, retryAfterMs] of [
      [0, 800],
      [0.5, 1_000],
      [1, 1_200],
    ] as const) {
      const edge = new EdgeRefusals(() => draw)
      edge.answered(request(), refusal(), 0)
      expect(edge.answer(request(), 1)).toEqual(refusal({ retryAfterMs }))
    }
  })

  it.each<[string, Partial<Admission>]>([
    ['another key', { tenant: 'quiet' }],
    ['another class', { requestClass: 'critical' }],
    ['another model', { model: 'adapter' }],
    ['a prompt half as long', { promptTokens: 250 }],
    ['a deadline', { ttftDeadlineMs: 1_000 }],
    ['a retry', { attempt: 1 }],
    ['a hedge', { attempt: 1, second: { kind: 'hedge' } }],
  ])('an edge before a full pool sends a request with %s', (_, changes) => {
    const edge = new EdgeRefusals(() => 0.5)
    sentBy(edge, 100)
    expect(edge.answer(request(), 100)).not.toBeNull()
    expect(edge.answer(request(changes), 100)).toBeNull()
  })

  it('an edge before a full pool sends a request if no answer of the last second is known, or the clock was set back', () => {
    const edge = new EdgeRefusals(() => 0.5)
    edge.answered(request(), refusal(), 5_000)
    expect(edge.answer(request(), 5_999)).not.toBeNull()
    expect([edge.answer(request(), 6_000), edge.answer(request(), 4_999)]).toEqual([null, null])
  })

  it.each<[string, Partial<Refusal>]>([
    ['of a pool that refuses fewer requests', { refusalsPerS: 100 }],
    ['for a deadline', { limit: 'deadline' }],
    ['from a full queue', { limit: 'queue' }],
    ['of a request that may wait', { mayWait: true }],
    ['of a request that a provider may serve', { mayPanic: true }],
    ['without an engine', { reason: 'no_engine' }],
  ])('an edge before a full pool repeats no refusal %s', (_, changes) => {
    const { limit, ...others } = refusal(changes)
    const answer = changes.reason === undefined ? { ...others, ...(limit === undefined ? {} : { limit }) } : others
    expect(sentBy(new EdgeRefusals(() => 0.5), 200, {}, answer)).toBe(200)
  })
})

/** A pool that admits `capacityPerS`, and its edges, to which requests arrive evenly. */
function run(seconds: number, arrivalsPerS: number, pool: Pool, from: number): { admitted: number; requests: number } {
  const counts = { admitted: 0, requests: 0 }
  for (let at = 0; at < seconds * arrivalsPerS; at++) {
    const now = from + (1_000 * at) / arrivalsPerS
    const edge = pool.edges[at % pool.edges.length]!
    if (edge.answer(request(), now) !== null) continue
    counts.requests += 1
    const given = pool.admit(edge.take(), now)
    edge.answered(request(), given, now)
    if (given === null) counts.admitted += 1
  }
  return counts
}

class Pool {
  readonly edges = Array.from({ length: 4 }, () => new EdgeRefusals(() => 0.5))
  readonly #rate = new RefusalRate()
  #places = 5
  #at = 0
  readonly #capacityPerS: number

  constructor(capacityPerS: number) {
    this.#capacityPerS = capacityPerS
  }

  admit(reported: number, now: number): Refusal | null {
    this.#places = Math.min(5, this.#places + ((now - this.#at) * this.#capacityPerS) / 1_000)
    this.#at = now
    this.#rate.add(reported, now)
    if (this.#places >= 1) {
      this.#places -= 1
      return null
    }
    this.#rate.add(1, now)
    return refusal({ refusalsPerS: this.#rate.perS(now) })
  }
}

describe('four edges before a pool that can serve 250 requests per second', () => {
  it('four edges before a full pool keep it full at 1,000 and at 10,000 per second, and send at most 200 more than it admits', () => {
    for (const arrivalsPerS of [1_000, 10_000]) {
      const pool = new Pool(250)
      run(5, arrivalsPerS, pool, 0)
      const { admitted, requests: sent } = run(10, arrivalsPerS, pool, 5_000)
      expect(admitted / 2_500).toBeGreaterThan(0.97)
      expect((sent - admitted) / 10).toBeLessThan(200)
    }
  })

  it('four edges before a full pool send everything 3 s after the load has fallen', () => {
    const pool = new Pool(250)
    run(5, 2_000, pool, 0)
    run(3, 200, pool, 5_000)
    const { admitted } = run(5, 200, pool, 8_000)
    expect(admitted).toBe(1_000)
  })

  it('four edges before a full pool send everything if it refuses fewer than 100 per second', () => {
    const { requests: sent } = run(10, 320, new Pool(250), 0)
    expect(sent).toBe(3_200)
  })
})
