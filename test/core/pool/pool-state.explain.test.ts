import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import type { Decision } from '../../../src/core/contract/decision.ts'
import type { PolicyConfig, PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { policyKinds } from '../../../src/core/routing/policies/policies.ts'
import { admission, engine, outcome, pool } from '../../kit/pool-fixtures.ts'
import { chain, range } from '../prefix-index/block-chains.ts'

const policies: PolicyConfig[] = policyKinds.map(({ name }) => ({ name, options: {} }))
const policy = fc.constantFrom(...policies)
const roles = fc.constantFrom('any' as const, 'any' as const, 'prefill' as const, 'decode' as const)
const fleet = fc
  .array(fc.record({ role: roles, weight: fc.constantFrom(1, 2), rttMs: fc.nat(50) }), { minLength: 1, maxLength: 12 })
  .map((list) => list.map((one, at) => engine(`e${at}`, one)))
const talk = fc.record({
  of: fc.nat(4),
  blocks: fc.integer({ min: 1, max: 40 }),
  session: fc.option(fc.constantFrom('s', 't')),
  waitMs: fc.nat(2000),
  ends: fc.boolean(),
})
const history = fc.array(talk, { minLength: 1, maxLength: 40 })

/** Runs requests one after the other. `each` gets the state before an admission and the resulting decision. */
function run(
  changes: Partial<PoolConfig>,
  talks: readonly (typeof history extends fc.Arbitrary<infer List> ? List : never)[number][],
  each: (ranked: Decision | null, booked: Decision | null) => void,
): PoolState {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  state.configure(1, pool({ indexEntries: 500, ...changes }), 0)
  let now = 0
  for (const { of, blocks, session, waitMs, ends } of talks) {
    now += waitMs
    const request = admission({
      blocks: chain(range(0, blocks).map((at) => `${of}/${at}`)),
      promptTokens: blocks * 64 + 1,
      session,
    })
    const ranked = state.rank(request, now)
    const admitted = state.admit(request, now)
    each('decision' in ranked ? ranked.decision : null, state.explain(request.id))
    if (!('key' in admitted) || !ends) continue
    state.firstToken(admitted.key, { ttft: 300 }, now)
    state.release(
      admitted.key,
      outcome({ usage: { promptTokens: blocks * 64 + 1, completionTokens: 9, cachedTokens: 0 } }),
      now,
    )
  }
  return state
}

describe('a decision', () => {
  it('a decision equals the dry run at the same time', () => {
    fc.assert(
      fc.property(policy, fc.option(policy), fleet, history, (configured, shadow, engines, talks) => {
        run({ policy: configured, shadow, engines }, talks, (ranked, booked) => expect(booked).toEqual(ranked))
      }),
      { numRuns: 60 },
    )
  })

  it('a decision is unchanged when later decisions were made', () => {
    fc.assert(
      fc.property(policy, fleet, history, (configured, engines, talks) => {
        const decisions: Decision[] = []
        const state = run({ policy: configured, engines }, talks, (_ranked, booked) => {
          if (booked !== null) decisions.push(booked)
        })
        for (const { actual: _, ...decision } of decisions) expect(state.explain(decision.id)).toMatchObject(decision)
      }),
      { numRuns: 60 },
    )
  })

  it('a decision is forgotten after a thousand others, and those are not', () => {
    const engines = range(0, 3).map((at) => engine(`e${at}`))
    const decisions: Decision[] = []
    const talks = range(0, 1005).map((at) => ({
      of: at % 7,
      blocks: 1 + (at % 5),
      session: null,
      waitMs: 10,
      ends: true,
    }))
    const state = run(
      { policy: { name: 'predicted', options: {} }, engines },
      talks,
      (_ranked, booked) => void decisions.push(booked!),
    )
    expect(decisions.slice(0, 5).map(({ id }) => state.explain(id))).toEqual([null, null, null, null, null])
    for (const { id, candidates } of decisions.slice(5)) expect(state.explain(id)?.candidates).toEqual(candidates)
  })
})
