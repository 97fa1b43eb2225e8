import { expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import type { Admission } from '../../../src/core/contract/admission.ts'
import type { EngineSpec, PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { admission, engine, failed, pool, probe } from '../../kit/pool-fixtures.ts'

const external = engine('provider', { isExternal: true, prefixCaching: 'off' })

function open(own: readonly EngineSpec[], changes: Partial<PoolConfig> = {}) {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  state.configure(1, pool({ engines: [...own, external], ...changes }), 0)
  const ask = (request: Partial<Admission> = {}) => {
    const answer = state.admit(admission({ isLastResort: true, ...request }), 0)
    return 'refusal' in answer ? answer.refusal : answer.placement
  }
  const fails = (...ids: string[]) =>
    state.observe(
      ids.map((id) => probe(id, 0, { healthy: false })),
      0,
    )
  return { ask, fails }
}

const whole = (id: string) => expect.objectContaining({ kind: 'whole', engine: id })

it('an external engine is not asked while another engine can serve, however busy', () => {
  const { ask } = open([engine('a')], { policy: { name: 'round_robin', options: {} } })
  for (let sent = 0; sent < 50; sent++) expect(ask()).toEqual(whole('a'))
})

it('an external engine is asked when all others are down, full or avoided', () => {
  const { ask, fails } = open([engine('a', { maxInFlight: 1 }), engine('b')])
  expect(ask({ avoid: ['b'] })).toEqual(whole('a'))
  expect(ask({ avoid: ['b'] })).toEqual(whole('provider'))
  fails('b')
  expect(ask()).toEqual(whole('provider'))
  expect(ask({ avoid: ['a', 'b'] })).toEqual(whole('provider'))
})

it('an external engine waits until no other cluster can serve', () => {
  const { ask, fails } = open([engine('a')])
  fails('a')
  expect(ask({ isLastResort: false })).toMatchObject({ reason: 'engines_unavailable', mayPanic: true })
  expect(ask({ isLastResort: true })).toEqual(whole('provider'))
})

it('an external engine is asked before an engine whose circuit is open', () => {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  const circuit = { failures: 1, openMs: 10_000, maxEjectedShare: 1, panicShare: 1 }
  state.configure(1, pool({ engines: [engine('a'), external], circuit }), 0)
  const first = state.admit(admission({ isLastResort: true }), 0)
  if ('refusal' in first) throw new Error(first.refusal.detail)
  state.release(first.key, { ...failed, failedEngine: 'a' }, 0)
  const next = state.admit(admission({ isLastResort: true }), 1)
  expect('placement' in next && next.placement).toEqual(whole('provider'))
})

it('an external engine takes whole requests only: prefill engines alone leave the request to it', () => {
  const { ask, fails } = open([engine('p', { role: 'prefill' }), engine('d', { role: 'decode' })], {
    split: { mode: 'always', thresholdTokens: 1, fallback: 'decode_only' },
  })
  expect(ask()).toMatchObject({ kind: 'split' })
  fails('d')
  expect(ask()).toEqual(whole('provider'))
})

it('an external engine is asked if the pool’s own engines have no place to wait', () => {
  const { ask } = open([engine('a')], { maxWaiting: 2 })
  const placed = Array.from({ length: 12 }, () => ask())
  expect(placed[0]).toEqual(whole('a'))
  expect(placed.at(-1)).toEqual(whole('provider'))
  expect(ask({ isLastResort: false })).toMatchObject({ reason: 'overloaded', mayPanic: true })
})
