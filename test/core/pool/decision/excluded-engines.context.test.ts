import { expect, it } from 'vitest'
import type { Admission } from '../../../../src/core/contract/admission.ts'
import { PoolState } from '../../../../src/core/pool/pool-state.ts'
import { admission, engine, pool, probe } from '../../../kit/pool-fixtures.ts'

function open() {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  const engines = [engine('small', { contextTokens: 4_000 }), engine('large'), engine('provider', { isExternal: true })]
  state.configure(1, pool({ engines, policy: { name: 'round_robin', options: {} } }), 0)
  const ask = (changes: Partial<Admission>) => {
    const answer = state.admit(admission({ isLastResort: true, ...changes }), 0)
    return 'refusal' in answer ? answer.refusal.reason : (answer.placement as { engine: string }).engine
  }
  const four = (changes: Partial<Admission>) => [...new Set([0, 1, 2, 3].map(() => ask(changes)))].sort()
  const reports = (contextTokens: number) => state.observe([probe('large', 0, { contextTokens })], 0)
  return { ask, four, reports, state }
}

it('a request is placed on engines whose context holds its prompt and its output limit', () => {
  const { four } = open()
  expect(four({ promptTokens: 3_000 })).toEqual(['large', 'small'])
  expect(four({ promptTokens: 3_000, outputLimitTokens: 1_000 })).toEqual(['large', 'small'])
  expect(four({ promptTokens: 3_000, outputLimitTokens: 1_001 })).toEqual(['large'])
  expect(four({ promptTokens: 5_000 })).toEqual(['large'])
})

it('a request that is too long for all goes to the largest engine, and to no provider', () => {
  const { four, reports } = open()
  reports(32_000)
  expect(four({ promptTokens: 40_000 })).toEqual(['large'])
})

it('a long request does not visit a small engine while the large one is away', () => {
  const { ask, state } = open()
  state.observe([probe('large', 0, { healthy: false })], 0)
  expect(ask({ promptTokens: 5_000, isLastResort: false })).toBe('engines_unavailable')
  expect(ask({ promptTokens: 5_000 })).toBe('provider')
})

it('after an engine has refused the request as too long, only engines that are known to be larger can serve it', () => {
  const { ask, four, reports } = open()
  const request = { promptTokens: 3_000, beyondContextTokens: 4_000, avoid: ['small'] }
  expect(ask(request)).not.toBe('large')
  reports(4_000)
  expect(ask(request)).not.toBe('large')
  reports(32_000)
  expect(four(request)).toEqual(['large'])
})
