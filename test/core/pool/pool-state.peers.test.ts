/** Two pool states for the same engines that exchange their placements. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bookingKey } from '../../../src/core/pool/bookings.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { PoolDigest } from '../../../src/core/contract/pool-digest.ts'
import type { Outcome } from '../../../src/core/contract/outcome.ts'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { admission, failed, outcome, pool } from '../../kit/pool-fixtures.ts'

const START = 1_800_000_000_000
const blocks = (from: number, count: number) => Uint32Array.from({ length: 2 * count }, (_, at) => from + at)

class Pair {
  now = START
  readonly states: readonly [PoolState, PoolState]

  constructor(changes: Partial<PoolConfig> = {}) {
    const opened = () => {
      const state = new PoolState({ random: () => 0.5, epoch: 'e' })
      state.configure(1, pool({ policy: { name: 'predicted', options: {} }, ...changes }), this.now)
      return state
    }
    this.states = [opened(), opened()]
  }

  /** Admits at one state and sends the booking to the other at once. */
  admit(by: 0 | 1, own: Admission): string {
    const admitted = this.states[by].admit(own, this.now)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    this.states[1 - by]!.resume(
      { admission: own, placement: admitted.placement, firstTokenSeen: false, outputBlocks: 0, ofPeer: 'now' },
      this.now,
    )
    return admitted.placement.kind === 'whole' ? admitted.placement.engine : ''
  }

  firstToken(own: Admission, ttft: number): void {
    for (const state of this.states) state.firstToken(bookingKey(own), { ttft }, this.now)
  }

  release(own: Admission, how: Outcome): void {
    for (const state of this.states) state.release(bookingKey(own), how, this.now)
  }

  get digests(): readonly [PoolDigest, PoolDigest] {
    return [this.states[0].digest(this.now), this.states[1].digest(this.now)]
  }
}

const loadOf = ({ bookings, engines }: PoolDigest) => ({
  bookings,
  engines: engines.map(({ id, requests, activeBlocks, queuedPrefillTokens, cachedBlocks, learned }) => ({
    id,
    requests,
    activeBlocks,
    queuedPrefillTokens,
    cachedBlocks,
    learned,
  })),
})

describe('a placement by another replica', () => {
  it('a placement by another replica adds the same load and cached blocks as a local one', () => {
    const pair = new Pair()
    const booked = admission({ blocks: blocks(1, 10) })
    const chosen = pair.admit(0, booked)
    const [own, other] = pair.digests
    expect(loadOf(other)).toEqual(loadOf(own))
    expect(other.engines.find(({ id }) => id === chosen)).toMatchObject({
      requests: 1,
      activeBlocks: 10,
      queuedPrefillTokens: 640,
    })
  })

  it('a placement by another replica attracts the same prompt on this replica', () => {
    const pair = new Pair()
    for (let request = 0; request < 8; request++) {
      const own = admission({ blocks: blocks(1 + 1000 * request, 100), promptTokens: 6400 })
      const chosen = pair.admit(0, own)
      pair.now += 500
      pair.firstToken(own, 500)
      pair.release(own, outcome({ usage: { promptTokens: 6400, completionTokens: 2, cachedTokens: 0 } }))
      const again = admission({ blocks: blocks(1 + 1000 * request, 100), promptTokens: 6400 })
      expect(pair.admit(1, again)).toBe(chosen)
      pair.release(again, outcome())
    }
  })

  it('a placement by another replica updates the estimators of this replica equally', () => {
    const pair = new Pair()
    for (let request = 0; request < 30; request++) {
      const booked = admission({ blocks: blocks(1 + 1000 * request, 50), promptTokens: 3200, streams: true })
      pair.admit(0, booked)
      pair.now += 700
      pair.firstToken(booked, 700)
      pair.now += 100
      pair.release(
        booked,
        outcome({ usage: { promptTokens: 3200, completionTokens: 20, cachedTokens: 0 }, stages: { ttft: 700 } }),
      )
    }
    const [own, other] = pair.digests
    expect(other.engines[0]!.learned).toEqual(own.engines[0]!.learned)
    expect(other.engines[0]!.learned).not.toEqual(new Pair().digests[0].engines[0]!.learned)
  })

  it('a placement by another replica is counted only by its replica, even if its engine fails; the circuit opens on both', () => {
    const pair = new Pair()
    for (let request = 0; request < 3; request++) {
      const booked = admission({ avoid: ['b'] })
      pair.admit(0, booked)
      pair.release(booked, failed)
    }
    const [own, other] = pair.digests.map(({ engines }) => engines.find(({ id }) => id === 'a')!)
    expect(own).toMatchObject({ requestsTotal: 3, failuresTotal: 3, circuit: 'open' })
    expect(other).toMatchObject({ requestsTotal: 0, failuresTotal: 0, circuit: 'open' })
  })

  it('a placement by another replica expires without renewal like any other', () => {
    const pair = new Pair()
    pair.admit(0, admission())
    pair.now += 60_001
    expect(pair.states[1].expire(pair.now)).toBe(1)
    expect(pair.digests[1].bookings).toBe(0)
  })

  it('a placement by another replica is restored after its lease expired and was resumed there', () => {
    const pair = new Pair()
    const own = admission()
    pair.admit(0, own)
    pair.release(own, outcome({ result: 'lapsed' }))
    for (const state of pair.states)
      state.resume(
        {
          admission: own,
          placement: { kind: 'whole', engine: 'a', runnersUp: [] },
          firstTokenSeen: false,
          outputBlocks: 0,
          ofPeer: 'before',
        },
        pair.now,
      )
    expect(pair.digests[1].bookings).toBe(1)
  })

  it('from before the connection is booked without updating estimators', () => {
    const pair = new Pair()
    const own = admission({ blocks: blocks(1, 10) })
    pair.states[0].admit(own, pair.now)
    pair.states[1].resume(
      {
        admission: own,
        placement: { kind: 'whole', engine: 'a', runnersUp: [] },
        firstTokenSeen: true,
        outputBlocks: 4,
        ofPeer: 'before',
      },
      pair.now,
    )
    expect(pair.digests[1].engines[0]).toMatchObject({ requests: 1, queuedPrefillTokens: 0 })
    pair.now += 30_000
    pair.release(own, outcome({ usage: { promptTokens: 640, completionTokens: 9, cachedTokens: 0 } }))
    expect(loadOf(pair.digests[1]).engines[0]!.learned).toEqual(loadOf(new Pair().digests[1]).engines[0]!.learned)
  })

  it('a placement by another replica leaves no booking behind, for any deciding replica and order of ends', () => {
    const act = fc.record({
      by: fc.constantFrom<0 | 1>(0, 1),
      tokens: fc.nat(4_000),
      from: fc.nat(3),
      ends: fc.constantFrom<Outcome['result']>('complete', 'client_gone', 'engine_failed', 'abandoned'),
      first: fc.boolean(),
      hold: fc.nat(5),
    })
    fc.assert(
      fc.property(fc.array(act, { maxLength: 40 }), (acts) => {
        const pair = new Pair()
        const open: { readonly own: Admission; readonly until: number; readonly how: Outcome }[] = []
        for (const [at, { by, tokens, from, ends, first, hold }] of acts.entries()) {
          const booked = admission({ promptTokens: tokens, blocks: blocks(1 + 500 * from, tokens >> 6) })
          pair.admit(by, booked)
          pair.now += 10
          if (first) pair.firstToken(booked, 10)
          open.push({ own: booked, until: at + hold, how: outcome({ result: ends }) })
          for (const one of open.filter(({ until }) => until === at)) pair.release(one.own, one.how)
          const [own, other] = pair.digests
          expect(other.engines.map(({ requests, activeBlocks }) => [requests, activeBlocks])).toEqual(
            own.engines.map(({ requests, activeBlocks }) => [requests, activeBlocks]),
          )
        }
        for (const { own, how } of open) pair.release(own, how)
        for (const { bookings, engines } of pair.digests) {
          expect(bookings).toBe(0)
          for (const engine of engines)
            expect(engine).toMatchObject({ requests: 0, activeBlocks: 0, queuedPrefillTokens: 0 })
        }
      }),
    )
  })
})
