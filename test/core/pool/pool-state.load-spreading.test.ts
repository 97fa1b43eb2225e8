import { describe, expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { tieOrder } from '../../../src/core/pool/decision/tie-order.ts'
import { engineState } from '../../kit/engine-state.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { admission, engine, outcome, pool } from '../../kit/pool-fixtures.ts'
import { policyKinds } from '../../../src/core/routing/policies/policies.ts'

const eight = Array.from({ length: 8 }, (_, index) => engine(`e${index}`))

function open(changes: Partial<PoolConfig>): PoolState {
  let seed = 1
  const random = () => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
    return seed / 2 ** 32
  }
  const state = new PoolState({ random, epoch: 'e' })
  state.configure(1, pool({ engines: eight, ...changes }), 0)
  return state
}

function admit(state: PoolState, now: number, changes: Partial<Admission> = {}) {
  const answer = state.admit(admission(changes), now)
  if ('refusal' in answer) throw new Error(JSON.stringify(answer.refusal))
  if (answer.placement.kind !== 'whole') throw new Error('not whole')
  return { key: answer.key, engine: answer.placement.engine, policy: answer.policy }
}

function counted(engines: readonly string[]): number[] {
  const counts = new Map<string, number>()
  for (const id of engines) counts.set(id, (counts.get(id) ?? 0) + 1)
  return eight.map(({ id }) => counts.get(id) ?? 0)
}

const spread = (counts: readonly number[]) => Math.max(...counts) - Math.min(...counts)
const names = policyKinds.map(({ name }) => name)

describe('1,000 equal cold requests at once over 8 idle engines', () => {
  it.each(names.filter((name) => name !== 'random' && name !== 'power_of_two'))(
    '1,000 equal cold requests differ by at most one under %s',
    (name) => {
      const state = open({ policy: { name, options: {} } })
      const chosen = Array.from({ length: 1_000 }, () => admit(state, 0).engine)
      expect(spread(counted(chosen))).toBeLessThanOrEqual(1)
    },
  )

  it('1,000 equal cold requests stay close under power_of_two, and loose under random', () => {
    const [powerOfTwo, random] = ['power_of_two', 'random'].map((name) => {
      const state = open({ policy: { name, options: {} } })
      return spread(counted(Array.from({ length: 1_000 }, () => admit(state, 0).engine)))
    })
    expect(powerOfTwo).toBeLessThanOrEqual(8)
    expect(random).toBeGreaterThan(8)
  })
})

describe('sequential requests without overlap', () => {
  it.each(names.filter((name) => name !== 'random' && name !== 'power_of_two'))(
    'go round an idle fleet under %s',
    (name) => {
      const state = open({ policy: { name, options: {} } })
      let now = 0
      const chosen = Array.from({ length: 80 }, () => {
        const { key, engine: id } = admit(state, now)
        state.release(key, outcome(), now + 900)
        now += 1_000
        return id
      })
      expect(counted(chosen)).toEqual([10, 10, 10, 10, 10, 10, 10, 10])
    },
  )
})

describe('engines that cost the same', () => {
  it('engines that cost the same rotate by recent work, so that long and short prompts do not separate', () => {
    const state = open({ policy: { name: 'least_loaded', options: {} }, engines: eight.slice(0, 2) })
    const tokens = new Map<string, number>()
    for (let index = 0; index < 40; index++) {
      const promptTokens = index % 2 === 0 ? 10_000 : 10
      const { key, engine: id } = admit(state, index, { promptTokens })
      state.release(key, outcome(), index)
      tokens.set(id, (tokens.get(id) ?? 0) + promptTokens)
    }
    const [one, other] = [...tokens.values()]
    expect(Math.abs(one! - other!)).toBeLessThanOrEqual(10_000)
  })

  it('engines that cost the same rotate in turn if their recent work is equal', () => {
    const records = eight.map((spec, slot) => engineState(slot, spec))
    for (const { signals } of records) signals.recentWork = 7
    const orders = [0, 3, 8].map((rotation) => tieOrder(records, rotation).map(({ spec }) => spec.id)[0])
    expect(orders).toEqual(['e0', 'e3', 'e0'])
  })
})

describe('weights', () => {
  it.each(['round_robin', 'least_loaded', 'qps'])('share traffic exactly under %s', (name) => {
    const state = open({ policy: { name, options: {} }, engines: [engine('e0', { weight: 3 }), engine('e1')] })
    const counts = counted(Array.from({ length: 400 }, () => admit(state, 0).engine))
    expect(counts[0]).toBeGreaterThanOrEqual(299)
    expect(counts[0]).toBeLessThanOrEqual(301)
  })

  it('weights are followed by each leg of a split, whatever the other leg rotates', () => {
    const decoders = [engine('e0', { role: 'decode', weight: 3 }), engine('e1', { role: 'decode' })]
    const state = open({
      policy: { name: 'round_robin', options: {} },
      engines: [engine('p', { role: 'prefill' }), ...decoders],
    })
    const chosen = Array.from({ length: 400 }, () => {
      const answer = state.admit(admission(), 0)
      return 'placement' in answer && answer.placement.kind === 'split' ? answer.placement.decode : ''
    })
    expect(counted(chosen).slice(0, 2)).toEqual([300, 100])
  })

  it.each(names)('weights of 0 mean no new requests under %s', (name) => {
    const state = open({ policy: { name, options: {} }, engines: [engine('e0', { weight: 0 }), engine('e1')] })
    for (let at = 0; at < 20; at++) expect(admit(state, at * 1000).engine).toBe('e1')
    expect(state.digest(0).engines[0]).toMatchObject({ id: 'e0', available: false, draining: true, requestsTotal: 0 })
  })

  it('weights are probabilities under random', () => {
    const state = open({
      policy: { name: 'random', options: {} },
      engines: [engine('e0', { weight: 3 }), engine('e1')],
    })
    const [first] = counted(Array.from({ length: 4_000 }, () => admit(state, 0).engine))
    expect(first).toBeGreaterThan(2_850)
    expect(first).toBeLessThan(3_150)
  })
})

describe('round_robin', () => {
  it('the round_robin policy sends no extra requests to an engine that was drained', () => {
    const state = open({ policy: { name: 'round_robin', options: {} }, engines: eight.slice(0, 2) })
    state.observe([{ kind: 'drain', engine: 'e1', draining: true }], 0)
    for (let index = 0; index < 100; index++) admit(state, 0)
    state.observe([{ kind: 'drain', engine: 'e1', draining: false }], 0)
    const counts = counted(Array.from({ length: 20 }, () => admit(state, 0).engine))
    expect(spread(counts.slice(0, 2))).toBeLessThanOrEqual(2)
  })
})

describe('qps', () => {
  it('the qps policy counts requests of a sliding minute', () => {
    const state = open({ policy: { name: 'qps', options: {} }, engines: eight.slice(0, 2) })
    for (let index = 0; index < 5; index++) admit(state, 0, { avoid: ['e1'] })
    for (let index = 0; index < 3; index++) expect(admit(state, 59_999).engine).toBe('e1')
    // The five requests leave the window after exactly one minute: then e0 has 0 and e1 has 3.
    expect(admit(state, 60_000).engine).toBe('e0')
  })
})

describe('session', () => {
  it('a session stays on its engine', () => {
    const state = open({ policy: { name: 'session', options: {} } })
    const engines = Array.from({ length: 20 }, (_, index) => {
      const { key, engine: id } = admit(state, index, { session: 'session-1' })
      state.release(key, outcome(), index)
      return id
    })
    expect(new Set(engines).size).toBe(1)
  })

  it('the session policy hashes whole session names, not their first characters', () => {
    const state = open({ policy: { name: 'session', options: {} } })
    const engines = Array.from({ length: 40 }, (_, index) => {
      const { key, engine: id } = admit(state, 0, { session: `session-${index}` })
      state.release(key, outcome(), 0)
      return id
    })
    expect(new Set(engines).size).toBeGreaterThan(5)
  })

  it('the session policy moves only the sessions of a drained engine', () => {
    const state = open({ policy: { name: 'session', options: {} } })
    const engineOf = (index: number) => {
      const { key, engine: id } = admit(state, 0, { session: `s${index}` })
      state.release(key, outcome(), 0)
      return id
    }
    const before = Array.from({ length: 100 }, (_, index) => engineOf(index))
    state.observe([{ kind: 'drain', engine: 'e3', draining: true }], 0)
    const after = Array.from({ length: 100 }, (_, index) => engineOf(index))
    for (const [index, id] of before.entries()) if (id !== 'e3') expect(after[index]).toBe(id)
    expect(before).toContain('e3')
  })

  it('the session policy keeps each engine below 1.25 times its share for one hot session', () => {
    const state = open({ policy: { name: 'session', options: {} } })
    const counts = counted(Array.from({ length: 800 }, () => admit(state, 0, { session: 'hot' }).engine))
    expect(Math.max(...counts)).toBeLessThanOrEqual(Math.ceil(1.25 * 100))
    expect(Math.max(...counts)).toBeGreaterThan(110)
  })
})

describe('a shadow policy', () => {
  it('a shadow policy is recorded with its choice and does not change the placement', () => {
    const config = { policy: { name: 'round_robin', options: {} }, engines: eight.slice(0, 2) }
    const shadowed = open({ ...config, shadow: { name: 'least_loaded', options: {} } })
    const plain = open(config)
    const requests = Array.from({ length: 10 }, () => admission())
    for (const one of requests) {
      const [a, b] = [shadowed.admit(one, 0), plain.admit(one, 0)]
      expect('placement' in a && a.placement).toEqual('placement' in b && b.placement)
    }
    expect(shadowed.explain(requests[9]!.id)?.shadow).toMatchObject({ policy: 'least_loaded' })
    expect(plain.explain(requests[9]!.id)?.shadow).toBeNull()
  })
})

describe("a request's own policy", () => {
  it("a request's own policy replaces the configured one for that request", () => {
    const state = open({ policy: { name: 'round_robin', options: {} } })
    expect(admit(state, 0, { overrides: { policy: 'qps' } }).policy).toBe('qps')
    expect(admit(state, 0).policy).toBe('round_robin')
    expect(admit(state, 0, { overrides: { temperature: 1 } }).policy).toBe('round_robin')
  })
})

describe('an engine that was slow before', () => {
  it.each([
    ['with its first answer', { ttft: 900, first_byte: 900 }],
    ['in its decoding', { ttft: 20, first_byte: 20 }],
  ])('%s is not left out of an idle fleet for good', (_name, slow) => {
    const state = open({ policy: { name: 'predicted', options: {} }, engines: eight.slice(0, 3) })
    let now = 0
    const ask = (): string => {
      const { key, engine: id } = admit(state, now, { promptTokens: 100 })
      const unlucky = id === 'e1' && now < 10_000
      const stages = unlucky ? slow : { ttft: 20, first_byte: 20 }
      now += stages.ttft
      state.firstToken(key, stages, now)
      now += unlucky ? 3_000 : 100
      state.release(key, outcome({ stages, usage: { promptTokens: 100, completionTokens: 20, cachedTokens: 0 } }), now)
      now += 500
      return id
    }
    for (let index = 0; index < 12; index++) ask()
    const later = Array.from({ length: 300 }, ask)
    expect(later.filter((id) => id === 'e1').length).toBeGreaterThan(30)
  })
})
