import { expect, it } from 'vitest'
import { PoolState } from '../../../../src/core/pool/pool-state.ts'
import { admission, engine, pool, probe, stats } from '../../../kit/pool-fixtures.ts'

const slo = { ttftMs: 5_000, ttftMsPer1kTokens: null, itlMs: 20 }

it.each([
  { running: 1, kvUsage: 0.1, limit: undefined },
  { running: 41, kvUsage: 0.1, limit: 'itl' },
  { running: 2, kvUsage: 1, limit: 'memory' },
])(
  'the pressure on an engine includes other sources: $running running requests and a cache used to $kvUsage',
  ({ running, kvUsage, limit }) => {
    const state = new PoolState({ random: () => 0, epoch: 'e' })
    state.configure(1, pool({ engines: [engine('a', { cacheBlocks: 1_000 })], slo }), 0)
    const admitted = state.admit(admission({ promptTokens: 60 }), 0)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    state.firstToken(admitted.key, { ttft: 50 }, 50)
    state.observe([probe('a', 1_000, { stats: stats({ running, kvUsage }) })], 1_000)
    const next = state.admit(admission({ promptTokens: 60 }), 1_000)
    expect('refusal' in next ? next.refusal.limit : undefined).toBe(limit)
  },
)
