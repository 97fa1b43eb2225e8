import { describe, expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { policyKinds } from '../../../src/core/routing/policies/policies.ts'
import { admission, engines, outcome, pool } from '../../kit/pool-fixtures.ts'
import { chain, range } from '../prefix-index/block-chains.ts'

const BLOCK_TOKENS = 64
/** No token, one token, and both sides of a block boundary. */
const LENGTHS = [0, 1, BLOCK_TOKENS - 1, BLOCK_TOKENS, BLOCK_TOKENS + 1, 4 * BLOCK_TOKENS, 4 * BLOCK_TOKENS + 1]

describe.each(policyKinds.map(({ name }) => name))('%s', (name) => {
  it.each([1, 2, 33, 256])(
    'a pool places prompts of any length on %d engines, again and again, and leaves nothing behind',
    (count) => {
      const state = new PoolState({ random: () => 0.4, epoch: 'one' })
      state.configure(
        1,
        pool({ engines: engines(...range(0, count).map((at) => `e${at}`)), policy: { name, options: {} } }),
        0,
      )
      const keys: string[] = []
      for (const [at, promptTokens] of [...LENGTHS, ...LENGTHS].entries()) {
        const blocks = chain(range(0, Math.floor(promptTokens / BLOCK_TOKENS)))
        const answer = state.admit(
          admission({
            id: `${at}`,
            promptTokens,
            blocks,
            hints: [
              { engine: 'e0', matchedTokens: 1e9, tier: 'host' },
              { engine: 'gone', matchedTokens: 64, tier: 'device' },
            ],
          }),
          at,
        )
        if (!('key' in answer)) throw new Error(`refused: ${answer.refusal.reason}`)
        keys.push(answer.key)
        const { candidates, predictedCachedTokens } = state.explain(answer.key)!
        expect(new Set(candidates.map(({ engine }) => engine)).size).toBe(count)
        for (const { cost, terms } of candidates)
          for (const value of [cost, ...Object.values(terms)]) expect(Number.isFinite(value)).toBe(true)
        expect(predictedCachedTokens!).toBeLessThanOrEqual(Math.max(0, promptTokens - 1))
      }
      for (const [at, key] of keys.entries()) {
        if (at % 3 > 0) state.firstToken(key, {}, 100 + at)
        if (at % 3 > 1) state.progress(key, 2, 200 + at)
        state.release(key, outcome({ result: at % 2 === 0 ? 'complete' : 'client_gone' }), 300 + at)
      }
      for (const left of state.digest(1000).engines)
        expect(left).toMatchObject({ requests: 0, activeBlocks: 0, queuedPrefillS: 0, queuedPrefillTokens: 0 })
      expect(state.bookings).toBe(0)
    },
  )
})

describe('a prompt near a block boundary', () => {
  it.each([
    [BLOCK_TOKENS - 1, 1],
    [BLOCK_TOKENS, 1],
    [BLOCK_TOKENS + 1, 2],
    [2 * BLOCK_TOKENS, 2],
    [0, 0],
  ])('a prompt near a block boundary with %d tokens takes %d blocks', (promptTokens, blocks) => {
    const state = new PoolState({ random: () => 0, epoch: 'one' })
    state.configure(1, pool({ engines: engines('a') }), 0)
    state.admit(admission({ promptTokens, blocks: chain(range(0, Math.floor(promptTokens / BLOCK_TOKENS))) }), 0)
    expect(state.digest(0).engines[0]!.activeBlocks).toBe(blocks)
  })
})
