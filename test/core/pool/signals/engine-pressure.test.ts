import { expect, it } from 'vitest'
import { PoolState } from '../../../../src/core/pool/pool-state.ts'
import { admission, engine, outcome, pool, probe, stats } from '../../../kit/pool-fixtures.ts'

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

it('the time in which cached tokens are loaded is no wait for others', () => {
  const policy = { name: 'predicted', options: { hostTokenUs: 100_000 } }
  const state = new PoolState({ random: () => 0, epoch: 'e' })
  state.configure(1, pool({ engines: [engine('a')], policy, slo: { ...slo, itlMs: null } }), 0)
  const serve = (now: number) => {
    const admitted = state.admit(admission({ promptTokens: 60 }), now)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    state.firstToken(admitted.key, { ttft: 50 }, now + 50)
    const usage = { promptTokens: 60, completionTokens: 9, cachedTokens: 0 }
    state.release(admitted.key, outcome({ usage }), now + 150)
  }
  for (let at = 0; at < 8; at++) serve(1_000 * at)
  const hints = [{ engine: 'a', tier: 'host', matchedTokens: 600 }] as const
  const late = state.admit(admission({ hints }), 10_000)
  // A minute for its own tokens. It is late on an idle engine, too.
  expect(late).toMatchObject({ predictedTtftMs: expect.closeTo(60_000, -3) })
})
