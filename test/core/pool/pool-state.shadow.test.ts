import { describe, expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { admission, engines, pool } from '../../kit/pool-fixtures.ts'

function open(changes: Partial<PoolConfig>): PoolState {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  state.configure(1, pool({ engines: engines('a', 'b'), ...changes }), 0)
  return state
}

/** A lookup that found nearly the whole prompt on one engine. */
const heldBy = (engine: string) =>
  admission({ promptTokens: 64_000, hints: [{ engine, matchedTokens: 63_000, tier: 'device' as const }] })

describe('a shadow that disagrees', () => {
  it('a shadow policy that disagrees reports it in each decision, with the predicted gain', () => {
    const state = open({ policy: { name: 'round_robin', options: {} }, shadow: { name: 'predicted', options: {} } })
    const seen = [0, 1].map((at) => {
      const chosen = state.rank(heldBy('b'), at)
      state.admit(heldBy('b'), at)
      if (!('decision' in chosen)) throw new Error('refused')
      return {
        engine: chosen.decision.placement.kind === 'whole' ? chosen.decision.placement.engine : '',
        ...chosen.decision,
      }
    })
    const [onB, onA] = [seen.find(({ engine }) => engine === 'b')!, seen.find(({ engine }) => engine === 'a')!]
    expect(onA.shadow).toMatchObject({ policy: 'predicted', engine: 'b', agrees: false })
    expect(onA.shadow!.predictedGainMs).toBeCloseTo(onA.predictedTtftMs! - onA.shadow!.predictedTtftMs!)
    expect(onA.shadow!.predictedGainMs).toBeGreaterThan(0)
    expect(onB.shadow).toMatchObject({ engine: 'b', agrees: true, predictedGainMs: 0 })
  })

  it('a shadow policy that disagrees is counted in the digest, with the time it would have gained in all', () => {
    const state = open({ policy: { name: 'round_robin', options: {} }, shadow: { name: 'predicted', options: {} } })
    const gained = [0, 1, 2, 3].map((at) => {
      const request = heldBy('b')
      state.admit(request, at)
      return state.explain(request.id)!.shadow!
    })
    const counted = state.digest(9).decisions!
    expect(Object.fromEntries(counted.map(({ shadow, count }) => [shadow, count]))).toEqual({ agrees: 2, differs: 2 })
    const total = counted.reduce((sum, { shadowGainS = 0 }) => sum + shadowGainS, 0)
    expect(total).toBeCloseTo(gained.reduce((sum, { predictedGainMs }) => sum + predictedGainMs! / 1000, 0))
  })

  it('a shadow policy that disagrees is absent if its policy can rank no engine', () => {
    const state = open({ shadow: { name: 'kv_aware', options: {} } })
    const chosen = state.rank(admission({ hints: null }), 0)
    expect('decision' in chosen && chosen.decision.shadow).toBeNull()
  })
})

describe('a policy that needs lookups', () => {
  it.each([
    ['kv_aware', {}, 'someone', 'session'],
    ['kv_aware', {}, null, 'qps'],
    ['ttft', { cache: 'lookup' }, 'someone', 'session'],
    ['ttft', { cache: 'lookup' }, null, 'qps'],
  ] as const)(
    '%s %o leaves a request without one to its fallback: session %s, %s',
    (name, options, session, fallback) => {
      const state = open({ policy: { name, options } })
      const chosen = state.rank(admission({ hints: null, session }), 0)
      expect('decision' in chosen && chosen.decision).toMatchObject({
        policy: fallback,
        fallback: { from: name, reason: 'no LMCache lookup result for the prompt' },
      })
    },
  )

  it('ttft uses the gateway’s own index if a lookup fails', () => {
    const chosen = open({ policy: { name: 'ttft', options: {} } }).rank(admission({ hints: null }), 0)
    expect('decision' in chosen && chosen.decision).toMatchObject({ policy: 'ttft', fallback: null })
  })

  it('kv_aware falls back if more tokens than its threshold would stay uncached', () => {
    const state = open({ policy: { name: 'kv_aware', options: { threshold: 100 } } })
    const policyFor = (matchedTokens: number) => {
      const chosen = state.rank(
        admission({ promptTokens: 1000, hints: [{ engine: 'b', matchedTokens, tier: 'host' }] }),
        0,
      )
      return 'decision' in chosen ? [chosen.decision.policy, chosen.decision.fallback?.reason] : []
    }
    expect(policyFor(900)).toEqual(['kv_aware', undefined])
    expect(policyFor(899)).toEqual(['qps', 'it ranked no engine'])
  })

  it('kv_aware with threshold 0 uses only a full match', () => {
    const state = open({ policy: { name: 'kv_aware', options: { threshold: 0 } } })
    const policyFor = (matchedTokens: number) => {
      const chosen = state.rank(
        admission({ promptTokens: 1024, hints: [{ engine: 'b', matchedTokens, tier: 'host' }] }),
        0,
      )
      return 'decision' in chosen ? chosen.decision.policy : null
    }
    expect([policyFor(1024), policyFor(768)]).toEqual(['kv_aware', 'qps'])
  })

  it('a policy that needs lookups ignores hints for unknown engines and limits them to the prompt', () => {
    const state = open({ policy: { name: 'kv_aware', options: {} } })
    const hints = [
      { engine: 'gone', matchedTokens: 640, tier: 'host' as const },
      { engine: 'b', matchedTokens: 1e9, tier: 'host' as const },
    ]
    const chosen = state.rank(admission({ promptTokens: 640, hints }), 0)
    expect(
      'decision' in chosen && chosen.decision.candidates.map(({ engine, terms }) => [engine, terms['matched_tokens']]),
    ).toEqual([
      ['b', 639],
      ['a', 0],
    ])
  })
})
