import { expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { admission, engine, pool } from '../../kit/pool-fixtures.ts'

const BLOCK_TOKENS = 64
const ITL_MS = 100

/** Step limit after streams of which each reports its output twice: `[blocks, milliseconds since the first token]`. */
function limitAfter(reports: readonly (readonly [number, number])[], sequences = 1): number {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  const slo = { ttftMs: null, ttftMsPer1kTokens: null, itlMs: ITL_MS }
  state.configure(1, pool({ blockTokens: BLOCK_TOKENS, engines: [engine('a')], slo }), 0)
  const admitted = state.admit(admission({ promptTokens: BLOCK_TOKENS - 1, sequences }), 0)
  if ('refusal' in admitted) throw new Error(JSON.stringify(admitted.refusal))
  state.firstToken(admitted.key, { ttft: 0 }, 0)
  for (const [blocks, atMs] of reports) state.progress(admitted.key, blocks, atMs)
  return state.digest(reports.at(-1)![1]).engines[0]!.learned!.stepLimitMs!
}

it('the step limit is lowered by streams that are slower than the objective', () => {
  expect(
    limitAfter([
      [1, 300],
      [2, 300 + 150 * BLOCK_TOKENS],
    ]),
  ).toBeLessThan(ITL_MS)
})

it('the step limit is not lowered by streams that meet the objective', () => {
  expect(
    limitAfter([
      [1, 300],
      [2, 300 + 50 * BLOCK_TOKENS],
    ]),
  ).toBe(ITL_MS)
})

it('the step limit takes no sample from the first block, which the prompt may have filled in part', () => {
  expect(limitAfter([[1, 60_000]])).toBe(ITL_MS)
})

it('the step limit counts the output of parallel responses once', () => {
  expect(
    limitAfter(
      [
        [2, 300],
        [4, 300 + 150 * BLOCK_TOKENS],
      ],
      2,
    ),
  ).toBeLessThan(ITL_MS)
  expect(
    limitAfter(
      [
        [2, 300],
        [4, 300 + 80 * BLOCK_TOKENS],
      ],
      2,
    ),
  ).toBe(ITL_MS)
})
