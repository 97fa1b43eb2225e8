import { describe, expect, it } from 'vitest'
import { PredictionChoice } from '../../../src/core/latency/prediction-choice.ts'
import { UsualDelay } from '../../../src/core/latency/usual-delay.ts'
import { endedAs } from '../../../src/core/contract/outcome.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { admission, engine, pool } from '../../kit/pool-fixtures.ts'

function learned(samples: readonly (readonly [number, number])[]): UsualDelay {
  const delay = new UsualDelay()
  for (const [predictedS, measuredS] of samples) delay.learn(predictedS, measuredS)
  return delay
}

describe('the delay of prompts that wait behind others', () => {
  it('the delay of prompts that wait behind others is nothing before the first sample, and where predictions are right', () => {
    expect(new UsualDelay().seconds(1)).toBe(0)
    expect(learned(Array.from({ length: 50 }, () => [0.4, 0.4] as const)).seconds(0.4)).toBe(0)
  })

  it('the delay of prompts that wait behind others is learned from a steady load within forty samples', () => {
    const delay = learned(Array.from({ length: 40 }, () => [0.5, 0.55] as const))
    expect(delay.seconds(0.5)).toBeGreaterThan(0.045)
    expect(delay.seconds(0.5)).toBeLessThan(0.055)
  })

  it('changes little by one stall', () => {
    const steady = Array.from({ length: 40 }, () => [0.5, 0.55] as const)
    const before = learned(steady).seconds(0.5)
    expect(learned([...steady, [0.5, 60]]).seconds(0.5) - before).toBeLessThan(0.01)
  })

  it('the delay of prompts that wait behind others is at most a fifth of the prediction, either way', () => {
    const late = learned(Array.from({ length: 100 }, () => [1, 2] as const))
    expect(late.seconds(0.1)).toBeCloseTo(0.02)
    const early = learned(Array.from({ length: 100 }, () => [1, 0.1] as const))
    expect(early.seconds(0.1)).toBeCloseTo(-0.02)
  })

  it('the usual delay ignores samples that are no time', () => {
    expect(
      learned([
        [0.3, NaN],
        [NaN, 0.3],
        [0.3, -1],
        [0, 1],
      ]).seconds(1),
    ).toBe(0)
  })
})

it('a pool starts from the prediction in steps, unless it was clearly worse than the other', () => {
  const prediction = new PredictionChoice()
  expect(prediction.choose(1, 2)).toBe(2)
  for (let turn = 0; turn < 30; turn++) prediction.learn(1, 2, 1.4)
  expect(prediction.choose(1, 2)).toBe(2)
  for (let turn = 0; turn < 30; turn++) prediction.learn(1, 2, 1.1)
  expect(prediction.choose(1, 2)).toBe(1)
  prediction.learn(NaN, 2, 1)
  prediction.learn(1, 0, 1)
  for (let turn = 0; turn < 60; turn++) prediction.learn(1, 2, 1.8)
  expect(prediction.choose(1, 2)).toBe(2)
})

describe('predictions of a pool', () => {
  it('predictions of a pool count the prompts of a step together on a busy engine, and not on an idle one', () => {
    const state = new PoolState({ random: () => 0.5, epoch: 'e' })
    state.configure(1, pool({ engines: [engine('a')] }), 0)
    let count = 0
    const place = (now: number) => {
      const admitted = state.admit(admission({ id: `r${count++}`, promptTokens: 1000, streams: true }), now)
      if ('refusal' in admitted) throw new Error(JSON.stringify(admitted.refusal))
      return { key: admitted.key, predictedMs: admitted.predictedTtftMs! }
    }
    const end = (key: string, now: number) => state.release(key, endedAs('client_gone'), now)
    const aloneMs = 200
    /** A running request, and two prompts at once whose first tokens come together. Returns their predictions. */
    const burst = (now: number): number[] => {
      const running = place(now)
      state.firstToken(running.key, { ttft: aloneMs }, now + aloneMs)
      const both = [place(now + 1_000), place(now + 1_000)]
      const ttft = 2 * aloneMs
      for (const { key } of both) state.firstToken(key, { ttft }, now + 1_000 + ttft)
      for (const { key } of [running, ...both]) end(key, now + 2_000)
      return both.map(({ predictedMs }) => predictedMs)
    }
    let predicted: number[] = []
    for (let turn = 0; turn < 40; turn++) predicted = burst(turn * 10_000)
    const idle = place(400_000)
    // Without the delay: 200 and 400 ms for 400 and 400.
    expect(predicted[0]).toBeGreaterThan(idle.predictedMs + aloneMs / 10)
    expect(idle.predictedMs).toBeGreaterThan(0.8 * aloneMs)
    expect(idle.predictedMs).toBeLessThan(1.2 * aloneMs)
  })
})
