import { describe, expect, it } from 'vitest'
import { readAdmission } from '../../../src/core/contract/decode.ts'
import { endedAs } from '../../../src/core/contract/outcome.ts'
import { ErrorSpread } from '../../../src/core/latency/error-spread.ts'
import { predict } from '../../../src/core/latency/prediction.ts'
import { PredictionChoice } from '../../../src/core/latency/prediction-choice.ts'
import { UsualDelay } from '../../../src/core/latency/usual-delay.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { chance } from '../../../packages/replay/src/replay/chance.ts'
import { engine, pool } from '../../kit/pool-fixtures.ts'

const errors = () => ({ prediction: new PredictionChoice(), stepDelay: new UsualDelay(), spread: new ErrorSpread() })

describe('the prediction', () => {
  it('a prediction is the work and what the steps add, and certain where no other prompt waits', () => {
    const alone = predict({ waitS: 0.1, ownS: 0.4, stepsS: 0.2, isBehind: false }, errors())
    expect(alone.firstTokenS).toBeCloseTo(0.7)
    expect(alone.firstTokenP90S).toBe(alone.firstTokenS)
    const behind = predict({ waitS: 0.1, ownS: 0.4, stepsS: 0.2, isBehind: true }, errors())
    expect(behind.firstTokenP90S).toBeCloseTo(1.2 * 0.7)
  })
})

/** Sum of the terms of a candidate that are its predicted time to the first token, ms. */
function decidingMs(terms: Readonly<Record<string, number>>): number {
  const parts = ['network_s', 'queued_s', 'prefill_s', 'load_s', 'adapter_s', 'delay_s', 'later_s']
  return 1000 * parts.reduce((sum, part) => sum + terms[part]!, 0)
}

it.each([
  ['with the defaults', {}],
  ['with loading costs of the policy', { hostTokenUs: 50, adapterLoadS: 2 }],
])('the reported prediction is the one that decided, %s', (_, options) => {
  const random = chance(5)
  const state = new PoolState({ random, epoch: 'e' })
  const engines = [engine('a', { rttMs: 4 }), engine('b'), engine('c')]
  state.configure(1, pool({ engines, policy: { name: 'predicted', options } }), 0)
  const running: { readonly key: string; readonly at: number }[] = []
  let behindOthers = 0
  for (let at = 0; at < 300; at++) {
    const now = 120 * at
    const admission = readAdmission({
      id: `r${at}`,
      configVersion: 1,
      model: 'm',
      promptTokens: 500 + Math.floor(6_000 * random()),
      streams: true,
      adapter: at % 3 === 0 ? 'x' : null,
      hints: at % 4 === 0 ? [{ engine: 'b', tier: 'host', matchedTokens: 400 }] : null,
    })
    const admitted = state.admit(admission, now)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    const { placement, predictedTtftMs, candidates } = state.explain(admission.id)!
    const chosen = candidates.find((one) => placement.kind === 'whole' && one.engine === placement.engine)!
    expect(decidingMs(chosen.terms)).toBeCloseTo(predictedTtftMs!, 6)
    if (chosen.terms['delay_s'] !== 0) behindOthers += 1
    running.push({ key: admitted.key, at: now })
    if (running.length > 5) {
      const oldest = running.shift()!
      state.firstToken(oldest.key, { ttft: now - oldest.at + 40 }, now + 40)
      if (at % 2 === 0) state.release(oldest.key, endedAs('client_gone'), now + 41)
    }
  }
  expect(behindOthers).toBeGreaterThan(50)
})
