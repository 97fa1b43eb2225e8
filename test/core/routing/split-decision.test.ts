import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { KvTransferModel } from '../../../src/core/latency/kv-transfer.ts'
import type { CandidateSet } from '../../../src/core/routing/candidate-set.ts'
import { assignEncoders } from '../../../src/core/routing/assign-encoders.ts'
import { decideSplit } from '../../../src/core/routing/split-decision.ts'
import { admission, engine, outcome, pool } from '../../kit/pool-fixtures.ts'

const facts = { promptTokens: 100, cachedTokens: 0, splitTtftMs: null, wholeTtftMs: null }

describe('splitVerdict', () => {
  const verdictAt = (thresholdTokens: number, promptTokens: number) =>
    decideSplit({ ...facts, promptTokens }, { mode: 'threshold', thresholdTokens, fallback: 'fail' })

  it('splitVerdict splits from the threshold on, for every threshold', () => {
    fc.assert(
      fc.property(fc.integer({ min: -10, max: 1000 }), fc.nat(1000), (thresholdTokens, promptTokens) => {
        const { split, why } = verdictAt(thresholdTokens, promptTokens)
        expect(split).toBe(promptTokens >= thresholdTokens)
        expect(why).toContain(`${promptTokens} prompt tokens`)
      }),
    )
  })

  it.each([
    [99, false],
    [100, true],
    [101, true],
  ])('at a threshold of 100, %i tokens: split %s', (promptTokens, expected) =>
    expect(verdictAt(100, promptTokens).split).toBe(expected),
  )
})

function field(loads: Readonly<Record<string, number>>): CandidateSet {
  const engines = Object.entries(loads).map(([id, requests]) => ({ id, weight: 1, requests }))
  return { engines, candidates: () => engines as never }
}

describe('encoders', () => {
  it('encoders get items so that their loads differ by at most one', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(9), { minLength: 1, maxLength: 5 }),
        fc.integer({ min: 1, max: 32 }),
        (loads, items) => {
          const chosen = assignEncoders(field(Object.fromEntries(loads.map((load, at) => [`e${at}`, load]))), items)
          expect(chosen).toHaveLength(items)
          const after = loads.map((load, at) => load + chosen.filter((id) => id === `e${at}`).length)
          const given = after.filter((_, at) => chosen.includes(`e${at}`))
          // An assigned encoder had the lowest load at that time.
          expect(Math.max(...given)).toBeLessThanOrEqual(Math.min(...after) + 1)
        },
      ),
    )
  })

  it('encoders are empty in a pool without encode engines', () => {
    expect(assignEncoders(field({}), 3)).toEqual([])
  })
})

describe('KvTransferModel', () => {
  it('KvTransferModel grows with the prompt and converges to measured times', () => {
    const time = new KvTransferModel()
    expect(time.expectedMs(10_000)).toBeGreaterThan(time.expectedMs(100))
    for (let at = 0; at < 60; at++) time.learn(1000, 300)
    expect(time.expectedMs(1000)).toBeCloseTo(300, 0)
    expect(time.expectedMs(4000)).toBeGreaterThan(300)
  })

  it('KvTransferModel recovers from one stalled sample', () => {
    const time = new KvTransferModel()
    time.learn(1000, 60_000)
    for (let at = 0; at < 60; at++) time.learn(1000, 15)
    expect(time.expectedMs(1000)).toBeCloseTo(15, 0)
  })
})

const roles = [engine('p', { role: 'prefill' }), engine('d', { role: 'decode' }), engine('e', { role: 'encode' })]

function open(changes: Partial<PoolConfig> = {}): PoolState {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  state.configure(1, pool({ engines: roles, ...changes }), 0)
  return state
}

function booked(state: PoolState, changes: Partial<Admission> = {}) {
  const admitted = state.admit(admission(changes), 0)
  if ('refusal' in admitted) throw new Error('refused')
  return admitted
}

const requests = (state: PoolState) =>
  Object.fromEntries(state.digest(0).engines.map(({ id, requests: count }) => [id, count]))
const held = (state: PoolState) =>
  state.digest(0).engines.reduce((sum, one) => sum + one.requests + one.activeBlocks + one.queuedPrefillS, 0)

describe('legs of a booking', () => {
  it('legs of a booking are released one by one', () => {
    const state = open()
    const { key } = booked(state, { encodeItems: 2, promptTokens: 5_000 })
    expect(requests(state)).toEqual({ p: 1, d: 1, e: 2 })
    state.legDone(key, { legRole: 'encode', stages: { encode: 5 } }, 5)
    expect(requests(state)).toEqual({ p: 1, d: 1, e: 0 })
    state.legDone(key, { legRole: 'prefill', stages: { prefill_leg: 50 } }, 55)
    expect(requests(state)).toEqual({ p: 0, d: 1, e: 0 })
    expect(state.digest(55).engines.find(({ id }) => id === 'p')!.queuedPrefillS).toBe(0)
    state.firstToken(key, { ttft: 60 }, 60)
    expect(requests(state)).toEqual({ p: 0, d: 1, e: 0 })
    state.release(key, outcome(), 70)
    expect(held(state)).toBe(0)
  })

  it('end exactly once, for any order, repetition or loss of events', () => {
    const step = fc.constantFrom('encode', 'prefill', 'first', 'resume', 'restore')
    fc.assert(
      fc.property(fc.array(step, { maxLength: 12 }), fc.boolean(), (steps, last) => {
        let state = open()
        const request = admission({ encodeItems: 1, promptTokens: 500 })
        const { key, placement } = booked(state, request)
        const done = new Set<string>()
        for (const [at, event] of steps.entries()) {
          if (event === 'first') state.firstToken(key, {}, at)
          else if (event === 'resume')
            state.resume({ admission: request, placement, firstTokenSeen: false, legsDone: [], outputBlocks: 0 }, at)
          else if (event === 'restore') {
            const next = new PoolState({ random: () => 0.5, epoch: 'f' })
            next.restore(structuredClone(state.snapshot(at)!), at)
            state = next
          } else state.legDone(key, { legRole: event as 'encode' | 'prefill', stages: {} }, at)
          if (event === 'first') for (const part of ['encode', 'prefill']) done.add(part)
          else if (event === 'encode' || event === 'prefill') done.add(event)
          expect(requests(state)).toEqual({ p: done.has('prefill') ? 0 : 1, d: 1, e: done.has('encode') ? 0 : 1 })
        }
        if (last) state.release(key, outcome(), 100)
        else expect(state.expire(1e9)).toBe(1)
        expect(held(state)).toBe(0)
        expect(state.legDone(key, { legRole: 'prefill', stages: {} }, 101)).toBe(false)
      }),
    )
  })

  it('legs of a booking update the cost model of the prefill engine and not of the decode engine', () => {
    const state = open({ engines: roles.slice(0, 2) })
    for (let at = 0; at < 8; at++) {
      const { key } = booked(state, { id: `r${at}`, promptTokens: 1000 + 500 * at, blocks: new Uint32Array(0) })
      state.legDone(key, { legRole: 'prefill', stages: { prefill_leg: 1000 + 500 * at } }, 1e5 * at + 1000)
      state.firstToken(key, { ttft: 1100 + 500 * at, first_byte: 100 }, 1e5 * at + 1100)
      state.release(
        key,
        outcome({ usage: { promptTokens: 1000 + 500 * at, completionTokens: 3, cachedTokens: 0 } }),
        1e5 * at + 2000,
      )
    }
    const [prefill, decode] = ['p', 'd'].map((id) => state.digest(1e6).engines.find((one) => one.id === id)!)
    expect(prefill!.learned!.samples).toBeGreaterThan(0)
    expect(decode!.learned!.samples).toBe(0)
  })

  it('legs of a booking are compared with the prediction for the whole request, including the transfer', () => {
    const state = open({ engines: roles.slice(0, 2) })
    const { key, predictedTtftMs } = booked(state, { promptTokens: 4_000 })
    state.legDone(key, { legRole: 'prefill', stages: { prefill_leg: 1 } }, 1)
    state.firstToken(key, { ttft: predictedTtftMs! }, 2)
    expect(state.digest(2).engines[0]!.learned!.ttftError).toBe(0)
  })

  it('legs of a booking are avoided if the transfer takes longer than a split saves', () => {
    const engines = [engine('p', { role: 'prefill' }), engine('d', { role: 'decode', rttMs: 200 })]
    const adaptive = { engines, split: { mode: 'adaptive', thresholdTokens: 0, fallback: 'decode_only' } } as const
    const state = open(adaptive)
    const placed = () => {
      const { key, placement } = booked(state)
      return { key, kind: placement.kind }
    }
    const first = placed()
    expect(first.kind).toBe('split')
    state.legDone(first.key, { legRole: 'prefill', stages: { prefill_leg: 50 } }, 50)
    state.firstToken(first.key, { ttft: 5_050, first_byte: 5_000 }, 5_050)
    state.release(first.key, outcome(), 5_100)
    expect(placed().kind).toBe('whole')
  })

  it('legs of a booking have the reason for the split in the decision', () => {
    const state = open({ engines: roles.slice(0, 2) })
    booked(state, { id: 'one' })
    expect(state.explain('one')?.split).toEqual({ taken: true, why: 'always' })
  })
})

describe('cached tokens of a prefill leg', () => {
  const blocks = Uint32Array.from({ length: 64 }, (_, at) => at + 1)

  it('cached tokens of a prefill leg show a cache loss that the decode engine cannot report', () => {
    const state = open({ engines: roles.slice(0, 2) })
    const serve = (at: number, cachedTokens: number) => {
      const { key } = booked(state, { id: `r${at}`, promptTokens: 2048, blocks })
      state.legDone(
        key,
        {
          legRole: 'prefill',
          stages: { prefill_leg: 100 },
          usage: { promptTokens: 2048, completionTokens: 1, cachedTokens },
        },
        at + 100,
      )
      state.firstToken(key, { ttft: 110 }, at + 110)
      state.release(key, outcome({ usage: { promptTokens: 2048, completionTokens: 9, cachedTokens: 0 } }), at + 200)
    }
    const learned = () => state.digest(1e6).engines.find(({ id }) => id === 'p')!.learned!
    serve(1000, 0)
    serve(2000, 2032)
    expect(learned().actualCachedTokens).toBeGreaterThan(0)
    expect(learned().restarts).toBe(0)
    serve(3000, 0)
    serve(4000, 0)
    serve(5000, 0)
    expect(learned().cachedTokensError).toBeGreaterThan(0)
  })
})
