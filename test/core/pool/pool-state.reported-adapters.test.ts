import { expect, it } from 'vitest'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { maxReportedAdapters } from '../../../src/core/contract/pool-digest.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { admission, engine, pool, probe } from '../../kit/pool-fixtures.ts'

/** A pool whose engines `a` and `b` have reported these adapters. */
function open(
  lists: { readonly a: readonly string[]; readonly b: readonly string[] },
  changes: Partial<PoolConfig> = {},
) {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  state.configure(1, pool({ reportsAdapters: true, ...changes }), 0)
  state.observe([probe('a', 1, { adapters: lists.a }), probe('b', 1, { adapters: lists.b })], 1)
  const placed = (adapter: string) => {
    const answer = state.admit(admission({ model: adapter, adapter }), 2)
    return 'refusal' in answer ? answer.refusal.reason : (answer.placement as { readonly engine: string }).engine
  }
  const shown = () => state.digest(2).engines.map(({ loadedAdapters }) => loadedAdapters)
  return { placed, shown }
}

it('reported adapters are placed at an engine that lists them, and at no engine if none does', () => {
  const { placed, shown } = open({ a: [], b: ['sql'] })
  expect(shown()).toEqual([[], ['sql']])
  expect([placed('sql'), placed('sql')]).toEqual(['b', 'b'])
  expect(placed('poet')).not.toMatch(/^[ab]$/)
})

it('reported adapters of a pool that lists its own are not shown, and one that no engine has may be loaded by any', () => {
  const { placed, shown } = open({ a: [], b: ['sql'] }, { reportsAdapters: false })
  expect(shown()).toEqual([undefined, undefined])
  expect(placed('sql')).toBe('b')
  expect(placed('poet')).toMatch(/^[ab]$/)
})

it('reported adapters of an engine that serves certain models only are not shown, and of others so many', () => {
  const engines = [engine('a', { models: ['qwen'] }), engine('b')]
  const many = Array.from({ length: 300 }, (_, at) => `a${at}`)
  expect(open({ a: ['sql'], b: many }, { engines }).shown()).toEqual([undefined, many.slice(0, maxReportedAdapters)])
})
