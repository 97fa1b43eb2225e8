import { expect, it } from 'vitest'
import { mixedTraffic } from '../../../packages/bench/cost/mixed-traffic.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { admission, engine, engines, outcome, pool } from '../../kit/pool-fixtures.ts'

function stateOf(changes: Parameters<typeof pool>[0] = {}): PoolState {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  state.configure(1, pool({ engines: engines('a'), countsCosts: true, ...changes }), 0)
  return state
}

function admit(state: PoolState, now: number, changes: Parameters<typeof admission>[0] = {}): string {
  const admitted = state.admit(admission({ streams: true, ...changes }), now)
  if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
  return admitted.key
}

const engineSOf = (state: PoolState, key: string): number => {
  const cost = state.costOf(key)
  if (cost === null || cost === 'open') throw new Error(`no cost: ${cost}`)
  return cost.engineS
}

it.each([
  ['streams', { roles: ['any', 'any'], perSecond: 4, leaving: 0, whole: 0 }],
  [
    'clients that leave and answers without a stream',
    { roles: ['any', 'any'], perSecond: 4, leaving: 0.3, whole: 0.3 },
  ],
  ['split requests', { roles: ['prefill', 'decode', 'decode'], perSecond: 1, leaving: 0.2, whole: 0.2 }],
] as const)(
  'the costs of all keys are within 2 percent of the busy time of simulated engines: %s',
  (_name, traffic) => {
    const { byKey, busyS, split } = mixedTraffic({ ...traffic, requests: 300, seed: 7 })
    const charged = [...byKey.values()].reduce((sum, value) => sum + value, 0)
    expect(byKey.size).toBe(7)
    expect(split > 0).toBe(traffic.roles.includes('prefill' as never))
    expect(Math.abs(charged - busyS) / busyS).toBeLessThan(0.02)
  },
)

it('the cost of a booking is open until its release, and returned once', () => {
  const state = stateOf()
  const key = admit(state, 0)
  expect(state.costOf(key)).toBe('open')
  state.firstToken(key, {}, 1_000)
  state.release(key, outcome(), 3_000)
  state.release(key, outcome(), 9_000)
  expect(engineSOf(state, key)).toBeCloseTo(3, 6)
  expect(state.costOf(key)).toBeNull()
  expect(state.costOf('another')).toBeNull()
})

it('costs that no gateway reads are bounded, and the latest thousands of them stay', () => {
  const state = stateOf()
  const keys = Array.from({ length: 10_000 }, (_, at) => {
    const key = admit(state, at, { id: `r${at}` })
    state.release(key, outcome(), at)
    return key
  })
  const kept = keys.map((key) => state.costOf(key) !== null)
  expect(kept.slice(-4_096).every(Boolean)).toBe(true)
  expect(kept.filter(Boolean).length).toBeLessThanOrEqual(2 * 4_096)
})

it('the cost of a booking is unknown where costs are not counted', () => {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  state.configure(1, pool(), 0)
  const key = admit(state, 0)
  state.release(key, outcome(), 1_000)
  expect(state.costOf(key)).toBeNull()
})

it('a split request costs both engines their own time, and none while the other works', () => {
  const state = stateOf({ engines: [engine('p', { role: 'prefill' }), engine('d', { role: 'decode' })] })
  const key = admit(state, 0)
  state.legDone(key, { legRole: 'prefill', stages: {} }, 2_000)
  // 3 s of transfer are no work; only the step of the first token is.
  state.firstToken(key, {}, 5_000)
  state.release(key, outcome(), 6_000)
  const engineS = engineSOf(state, key)
  expect(engineS).toBeGreaterThan(3)
  expect(engineS).toBeLessThan(3.1)
})

it('cached tokens are shown as the prefill that they saved', () => {
  const state = stateOf()
  const usage = { promptTokens: 6_400, completionTokens: 1, cachedTokens: 6_000 }
  const key = admit(state, 0, { promptTokens: 6_400 })
  state.firstToken(key, {}, 1_000)
  state.release(key, outcome({ usage }), 1_100)
  const other = admit(state, 2_000, { promptTokens: 6_400 })
  state.firstToken(other, {}, 3_000)
  state.release(other, outcome({ usage: { ...usage, cachedTokens: 0 } }), 3_100)
  const saved = [key, other].map((one) => (state.costOf(one) as { savedS: number }).savedS)
  expect(saved[0]).toBeGreaterThan(0.05)
  expect(saved[1]).toBe(0)
})

it('an engine of another gateway costs nothing here', () => {
  const state = stateOf({ engines: [engine('a', { isGateway: true })] })
  const key = admit(state, 0)
  state.firstToken(key, {}, 1_000)
  state.release(key, outcome(), 2_000)
  expect(engineSOf(state, key)).toBe(0)
})
