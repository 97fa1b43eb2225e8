import { describe, expect, it } from 'vitest'
import { DecodeFitter } from '../../../src/core/latency/decode-fitter.ts'
import { tokenSeconds } from '../../../src/core/latency/decode-cost-model.ts'

const BLOCK_TOKENS = 64
const loaded = (running: number) => ({ running, blocks: 0, blockTokens: BLOCK_TOKENS, now: 0 })
const paceOf = (learner: DecodeFitter): number =>
  learner.costModel(BLOCK_TOKENS).baseS / new DecodeFitter().costModel(BLOCK_TOKENS).baseS

function taught(answers: number, pace: (at: number) => number): DecodeFitter {
  const learner = new DecodeFitter()
  const real = new DecodeFitter().costModel(BLOCK_TOKENS)
  for (let at = 0; at < answers; at++) {
    const running = at % 30
    learner.learn(200 * tokenSeconds(real, running, 0) * pace(at), 200, loaded(running))
  }
  return learner
}

describe('DecodeFitter', () => {
  it('DecodeFitter starts from vllm-router’s model: 10.6 ms, and 0.42 ms for each request', () => {
    expect(tokenSeconds(new DecodeFitter().costModel(BLOCK_TOKENS), 100, 0)).toBeCloseTo(0.010635 + 0.041928, 9)
    expect(tokenSeconds(new DecodeFitter().costModel(1), 0, 1000)).toBeCloseTo(0.010635 + 1.42e-4, 9)
  })

  it('DecodeFitter finds an engine that decodes four times slower', () => {
    expect(Math.abs(paceOf(taught(60, () => 4)) / 4 - 1)).toBeLessThan(0.05)
  })

  it.each([0.1, 10])('DecodeFitter goes by a pace that is %d times the old one after twenty answers', (factor) => {
    expect(Math.abs(paceOf(taught(320, (at) => (at < 300 ? 1 : factor))) / factor - 1)).toBeLessThan(0.2)
  })

  it('changes little after seven stalled responses in a row', () => {
    expect(paceOf(taught(220, (at) => (at >= 200 && at < 207 ? 1000 : 1)))).toBeLessThan(1.4)
  })

  it('changes little if one response in ten stalls', () => {
    expect(paceOf(taught(200, (at) => (at % 10 === 0 ? 1000 : 1)))).toBeLessThan(1.4)
  })

  it('DecodeFitter ignores responses that are too short or have impossible values', () => {
    const learner = new DecodeFitter()
    learner.learn(100, 7, loaded(1))
    learner.learn(0, 100, loaded(1))
    learner.learn(-1, 100, loaded(1))
    learner.learn(NaN, 100, loaded(1))
    expect(paceOf(learner)).toBe(1)
  })
})
