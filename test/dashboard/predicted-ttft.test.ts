import { expect, it } from 'vitest'
import { predictedTtftMs } from '../../src/dashboard/predicted-ttft.ts'
import type { Engine } from '../../src/dashboard/wire.ts'

const costModel = { fixed_s: 0.01, per_token_s: 0.0001, per_pair_s: 0 }
const engine = { queued_prefill_s: 0.5, learned: { cost_model: costModel } } as unknown as Engine

it('the predicted TTFT of an engine is its queue and the prefill of 1,024 uncached tokens', () => {
  expect(predictedTtftMs(engine)).toBeCloseTo(500 + 10 + 102.4)
})

it('the predicted TTFT of an engine is unknown without its queue or its cost model', () => {
  const { learned: _learned, ...unlearned } = engine
  expect(predictedTtftMs(unlearned)).toBeUndefined()
  const { queued_prefill_s: _queue, ...unqueued } = engine
  expect(predictedTtftMs(unqueued)).toBeUndefined()
})
