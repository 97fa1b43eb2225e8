import { describe, expect, it } from 'vitest'
import { readAdmission } from '../../../src/core/contract/decode.ts'
import { endedAs } from '../../../src/core/contract/outcome.ts'
import { ErrorSpread } from '../../../src/core/latency/error-spread.ts'
import { predict } from '../../../src/core/latency/prediction.ts'
import { PredictionChoice } from '../../../src/core/latency/prediction-choice.ts'
import { UsualDelay } from '../../../src/core/latency/usual-delay.ts'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { chance } from '../../../packages/replay/src/replay/chance.ts'
import { admission, engine, pool, probe, stats } from '../../kit/pool-fixtures.ts'

const errors = () => ({
  predictionChoice: new PredictionChoice(),
  stepDelay: new UsualDelay(),
  spread: new ErrorSpread(),
})

const work = { waitS: 0.1, placeWaitS: 0.05, ownS: 0.4, stepsS: 0.2 }

describe('the prediction', () => {
  it('a prediction is the work and what the steps add, and certain where no other prompt waits', () => {
    const alone = predict({ ...work, isBehind: false }, 0.02, errors())
    expect(alone.firstTokenS).toBeCloseTo(0.7)
    expect(alone.firstTokenP90S).toBe(alone.firstTokenS)
    expect(alone).toMatchObject({ itlS: 0.02, placeWaitS: 0.05, ownS: 0.4 })
    const behind = predict({ ...work, isBehind: true }, 0.02, errors())
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
    // Other sources use the engine, too.
    if (at % 40 === 0) state.observe([probe('b', now, { stats: stats({ running: 12, waiting: 3 }) })], now)
    const request = readAdmission({
      id: `r${at}`,
      configVersion: 1,
      model: 'm',
      promptTokens: 500 + Math.floor(6_000 * random()),
      streams: true,
      adapter: at % 3 === 0 ? 'x' : null,
      sequences: at % 5 === 0 ? 3 : 1,
      hints: at % 4 === 0 ? [{ engine: 'b', tier: 'host', matchedTokens: 400 }] : null,
    })
    const admitted = state.admit(request, now)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    const { placement, predictedTtftMs, predictedItlMs, candidates } = state.explain(request.id)!
    const chosen = candidates.find((one) => placement.kind === 'whole' && one.engine === placement.engine)!
    expect(decidingMs(chosen.terms)).toBeCloseTo(predictedTtftMs!, 6)
    expect(chosen.terms['decode_s']).toBeCloseTo((0.05 * 256 * predictedItlMs!) / 1000, 9)
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

/** Coefficients of the decode cost model without samples, ms. */
const BASE_MS = 10.635
const SEQUENCE_MS = 0.41928
const BLOCK_MS = 64 * 1.42e-4

it.each([
  { running: 0, sequences: 1, expectedMs: BASE_MS + SEQUENCE_MS + BLOCK_MS },
  { running: 0, sequences: 4, expectedMs: BASE_MS + 4 * SEQUENCE_MS + BLOCK_MS },
  { running: 5, sequences: 1, expectedMs: BASE_MS + 6 * SEQUENCE_MS + 6 * BLOCK_MS },
])(
  'the predicted time between tokens is that with $running streams beside $sequences new ones',
  ({ running, sequences, expectedMs }) => {
    const state = new PoolState({ random: chance(5), epoch: 'e' })
    state.configure(1, pool({ engines: [engine('a')] }), 0)
    for (let at = 0; at < running; at++) state.admit(admission({ promptTokens: 60 }), 0)
    const { id, ...rest } = admission({ promptTokens: 60, sequences })
    state.admit({ id, ...rest }, 0)
    expect(state.explain(id)!.predictedItlMs).toBeCloseTo(expectedMs, 9)
  },
)

it('the predicted time between tokens of a split request is that of the engine that decodes', () => {
  const state = new PoolState({ random: chance(5), epoch: 'e' })
  const engines = [engine('p', { role: 'prefill' }), engine('d', { role: 'decode' })]
  state.configure(1, pool({ engines }), 0)
  const itlMs = [1, 2, 3].map((at) => {
    const request = admission({ promptTokens: 60 })
    const admitted = state.admit(request, at)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    state.legDone(admitted.key, { legRole: 'prefill', stages: {} }, at)
    return state.explain(request.id)!.predictedItlMs!
  })
  // The prefill engine is idle again, and the decode engine keeps the streams.
  expect(itlMs[2]! - itlMs[1]!).toBeCloseTo(SEQUENCE_MS + BLOCK_MS, 9)
})

it('the predicted time between tokens is unknown at a gateway or provider', () => {
  for (const changes of [{ isGateway: true }, { isExternal: true }]) {
    const state = new PoolState({ random: chance(5), epoch: 'e' })
    state.configure(1, pool({ engines: [engine('far', changes)] }), 0)
    const request = admission({ isLastResort: true })
    state.admit(request, 0)
    expect(state.explain(request.id)).toMatchObject({ predictedItlMs: null, predictedPlaceWaitMs: null })
  }
})

/** A pool of one engine with two places, both taken, whose streams take `usualMs`. */
function fullEngine(usualMs: number): PoolState {
  const state = new PoolState({ random: chance(5), epoch: 'e' })
  state.configure(1, pool({ engines: [engine('a', { rttMs: 8 })], policy: { name: 'predicted', options: {} } }), 0)
  const stream = (now: number) => {
    const admitted = state.admit(admission({ promptTokens: 60 }), now)
    if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
    state.firstToken(admitted.key, { ttft: 50 }, now + 50)
    return admitted.key
  }
  state.release(stream(0), endedAs('client_gone'), 50 + usualMs)
  for (const now of [5_000, 5_000]) stream(now)
  // Three reports of a request that waits beside two that run, though the engine has memory.
  const waits = stats({ running: 2, waiting: 1, kvUsage: 0.1 })
  for (const now of [5_100, 5_200, 5_300]) state.observe([probe('a', now, { stats: waits })], now)
  state.observe([probe('a', 7_000, { stats: stats({ running: 2, kvUsage: 0.1 }) })], 7_000)
  return state
}

it('the prediction names the wait for a place, until a stream on a full engine ends', () => {
  const ranked = fullEngine(4_000).rank(admission({ promptTokens: 60 }), 7_000)
  if ('refusal' in ranked) throw new Error(ranked.refusal.detail)
  const { predictedTtftMs, predictedPlaceWaitMs } = ranked.decision
  // The two places become free evenly over twice the remaining time of their streams.
  expect(predictedPlaceWaitMs).toBeCloseTo((2 * (4_000 - 1_950)) / 3, 6)
  expect(predictedTtftMs).toBeGreaterThan(predictedPlaceWaitMs!)
})

it.each([
  ['is full', () => undefined],
  [
    'other sources use',
    (state: PoolState, now: number) => {
      state.observe([probe('a', now, { stats: stats({ running: 9, waiting: 4, kvUsage: 0.1 }) })], now)
      state.admit(admission({ promptTokens: 9_000 }), now)
    },
  ],
])('edges get the wait that a decision would have, of an engine that %s', (_, load) => {
  const state = fullEngine(4_000)
  load(state, 7_600)
  const ranked = state.rank(admission({ promptTokens: 60 }), 7_620)
  if ('refusal' in ranked) throw new Error(ranked.refusal.detail)
  const { network_s: networkS, queued_s: queuedS } = ranked.decision.candidates[0]!.terms
  expect(queuedS).toBeGreaterThan(0.1)
  expect(state.regionDigest(7_620).soonest!.waitS).toBeCloseTo(networkS! + queuedS!, 9)
})
