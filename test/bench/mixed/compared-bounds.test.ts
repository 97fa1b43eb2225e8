import { describe, expect, it } from 'vitest'
import { comparedBounds } from '../../../packages/bench/mixed/compared-bounds.ts'
import { ownKind, type PredictionTally } from '../../../packages/bench/mixed/policies.ts'
import { engineProfile } from '../../../packages/replay/src/replay/engine-profile.ts'
import { fleetOf, replay } from '../../../packages/replay/src/replay/plan.ts'
import { sharedPrefixes } from '../../../packages/replay/src/replay/workloads.ts'
import { readAdmission } from '../../../src/core/contract/decode.ts'
import type { Decision } from '../../../src/core/contract/decision.ts'
import type { OverloadInput } from '../../../src/core/overload/overload-control.ts'
import type { Pressure } from '../../../src/core/overload/pressure.ts'

const BUSY: Pressure = {
  waitMs: 900,
  marginMs: 300,
  prefillMs: 200,
  overdueMs: 0,
  stepMs: 20,
  prefillShare: 0,
  queuedMs: 0,
  outputTokens: null,
  memoryShare: 0,
  stepLimitMs: 100,
  requests: 4,
  waiting: 3,
  samples: 100,
}

function bounds(predictedTtftMs: number | null, pressure: Partial<Pressure> = {}) {
  const placement = { kind: 'whole', engine: 'a', runnersUp: [] }
  const input: OverloadInput = {
    admission: readAdmission({ id: 'r', promptTokens: 1_000, ttftDeadlineMs: 5 }),
    decision: { placement, predictedTtftMs } as unknown as Decision,
    alternatives: () => [],
    maxWaiting: 1,
    engines: 1,
    pressure: () => ({ ...BUSY, ...pressure }),
    limited: () => expect.unreachable('a trial must not count as a refusal'),
    now: 0,
  }
  return comparedBounds(input)
}

describe('comparison of bounds with the reported prediction', () => {
  it('the deadline and the objective agree with the reported prediction if they use its wait and prefill', () => {
    expect(bounds(1_100)).toEqual({ compared: 2, differ: 0 })
  })

  it('measured lateness, memory and running streams are no difference', () => {
    expect(bounds(1_100, { overdueMs: 4_000, memoryShare: 2, prefillShare: 0.95 })).toEqual({ compared: 2, differ: 0 })
  })

  it('a bound that uses a longer or a shorter wait differs, and so does one without the prefill', () => {
    expect(bounds(1_100, { waitMs: 901 })).toEqual({ compared: 2, differ: 2 })
    expect(bounds(1_100, { waitMs: 899 })).toEqual({ compared: 2, differ: 2 })
    expect(bounds(1_100, { prefillMs: 0 })).toEqual({ compared: 2, differ: 2 })
  })

  it('an idle or unlearned engine has a deadline and no objective to compare', () => {
    expect(bounds(250, { waitMs: 50, marginMs: 0 })).toEqual({ compared: 1, differ: 0 })
    expect(bounds(1_100, { samples: 0 })).toEqual({ compared: 1, differ: 0 })
  })

  it('a decision without a prediction has nothing to compare', () => {
    expect(bounds(null)).toEqual({ compared: 0, differ: 0 })
  })
})

it('the gateway decides by the prediction that it reports, in its policy and in every bound', () => {
  const tally: PredictionTally = { decisions: 0, bounds: 0, differed: 0 }
  const trace = sharedPrefixes({
    name: 'p',
    requests: 150,
    promptTokens: 3_000,
    outputTokens: 20,
    prefixes: 4,
    prefixShare: 0.5,
    varyPrompt: 0.5,
    varyOutput: 0.5,
    blockTokens: 512,
    seed: 1,
  })
  const fleet = fleetOf(2, { kind: 'vllm', profile: engineProfile('l40s-8b') })
  const pace = { speed: 1, closedLoop: false, concurrency: 12, holdAt: null, seed: 1, clockMs: null }
  replay(trace, fleet, ownKind(tally), pace)
  expect(tally).toMatchObject({ decisions: 150, differed: 0 })
  // All have a deadline to compare; those that wait on a learned engine have an objective too.
  expect(tally.bounds).toBeGreaterThan(150)
})
