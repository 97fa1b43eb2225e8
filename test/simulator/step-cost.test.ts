import { expect, test } from 'vitest'
import { EngineModel } from '../../packages/simulator/src/engine-model.ts'
import { profileNamed } from '../../packages/simulator/src/profiles.ts'
import { batchMs, idleTtftMs, type StepCostModel } from '../../packages/simulator/src/step-cost.ts'
import { Sequence } from '../../packages/simulator/src/sequence.ts'

const { costModel: dense, limits } = profileNamed('agentic')
/** Every token chooses half of the experts. */
const mixture: StepCostModel = { ...dense, expertsMs: 80, expertShare: 0.5 }

function decoding(count: number): Sequence[] {
  return Array.from({ length: count }, () =>
    Object.assign(new Sequence({ promptTokens: 100, outputTokens: 50, blocks: new Uint32Array(0) }, 0, 16), {
      chunk: 1,
      computed: 100,
    }),
  )
}

test('a step of a mixture of experts reads each chosen expert once', () => {
  const readMs = (count: number) => batchMs(mixture, decoding(count)) - batchMs(dense, decoding(count))
  expect(readMs(1)).toBeCloseTo(40)
  expect(readMs(2)).toBeCloseTo(60)
  expect(readMs(3)).toBeCloseTo(70)
  expect(readMs(60)).toBeCloseTo(80)
})

test('the prediction of an idle engine counts the experts of each step', () => {
  for (const promptTokens of [2, 700, limits.maxNumBatchedTokens + 3]) {
    let firstAt = -1
    const engine = new EngineModel(
      { limits: { ...limits, blockTokens: 16 }, costModel: mixture },
      { token: (_, at) => (firstAt = at) },
    )
    engine.submit({ promptTokens, outputTokens: 1, blocks: new Uint32Array(0) }, 0)
    engine.advance(1e9)
    expect(firstAt).toBeCloseTo(idleTtftMs(mixture, promptTokens, 0, limits.maxNumBatchedTokens), 6)
  }
})
