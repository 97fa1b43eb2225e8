import { describe, expect, it } from 'vitest'
import type { StateChange } from '../../../../src/core/contract/pool-digest.ts'
import { PoolState } from '../../../../src/core/pool/pool-state.ts'
import { admission, failed, pool, probe } from '../../../kit/pool-fixtures.ts'
import { PoolInTime, TTFT_MS } from '../../../kit/pool-in-time.ts'

const of = (state: PoolState, now: number, id = 'a'): readonly StateChange[] =>
  state.digest(now).engines.find((engine) => engine.id === id)?.changes ?? []

const steps = (changes: readonly StateChange[]) => changes.map(({ aspect, to }) => `${aspect} ${to}`)

describe('the state changes of an engine', () => {
  const start = 1_000_000
  const opened = () => {
    const state = new PoolState({ random: () => 0.5, epoch: 'e' })
    state.configure(1, pool(), start)
    return state
  }
  const drain = (state: PoolState, draining: boolean, now: number) =>
    state.observe([{ kind: 'drain', engine: 'a', draining }], now)

  it('the state changes of an engine that never changed are absent', () => {
    const state = opened()
    state.observe([probe('a', start + 1)], start + 1)
    state.watch(start + 1_000)
    expect(state.digest(start + 1_000).engines[0]).not.toHaveProperty('changes')
  })

  it('the state changes of an engine have the time of each drain and undrain, once', () => {
    const state = opened()
    drain(state, true, start + 5)
    drain(state, true, start + 6)
    drain(state, false, start + 9)
    expect(of(state, start + 10)).toEqual([
      { at: start + 5, aspect: 'use', to: 'draining' },
      { at: start + 9, aspect: 'use', to: 'serving' },
    ])
    expect(of(state, start + 10, 'b')).toEqual([])
  })

  it('the state changes of an engine name the failure of a health check, and its end', () => {
    const state = opened()
    state.observe([probe('a', start + 5, { healthy: false, problem: 'connect' })], start + 5)
    state.watch(start + 500)
    state.observe([probe('a', start + 900)], start + 900)
    state.watch(start + 1_500)
    const changes = of(state, start + 2_000)
    expect(changes[0]).toEqual({ at: start + 5, aspect: 'health', to: 'unhealthy', reason: 'connect' })
    expect(steps(changes)).toEqual(['health unhealthy', 'condition unreachable', 'health healthy', 'condition well'])
  })

  it('the state changes of an engine have its open circuit with the last failure, and no trial of it', () => {
    const state = opened()
    const lost = { ...failed, failedEngine: 'a' }
    const send = (now: number) => {
      const admitted = state.admit(admission({ avoid: ['b'], isLastResort: true }), now)
      if ('refusal' in admitted) throw new Error(admitted.refusal.detail)
      return admitted.key
    }
    for (let at = 0; at < 3; at++) state.release(send(start + at), lost, start + at)
    state.watch(start + 500)
    const seen = of(state, start + 500).filter(({ aspect }) => aspect === 'circuit')
    expect(seen).toEqual([{ at: start + 500, aspect: 'circuit', to: 'open', reason: 'connect' }])
    // The circuit is half-open, and opens again.
    state.release(send(start + 20_000), lost, start + 20_001)
    state.watch(start + 21_000)
    expect(of(state, start + 21_000).filter(({ aspect }) => aspect === 'circuit')).toEqual(seen)
  })

  it('the state changes of an engine say that it was wedged, without the suspicion before', () => {
    const site = new PoolInTime()
    site.learn()
    site.stopped.add('a')
    for (let at = 0; at < 3; at++) site.send()
    site.pass(TTFT_MS + 3_000)
    site.stopped.clear()
    site.pass(5_000)
    expect(steps(of(site.state, site.now))).toEqual(['condition wedged', 'condition well'])
  })

  it('the state changes of an engine are the last twelve, and survive a snapshot without a change by it', () => {
    const state = opened()
    for (let at = 1; at <= 21; at++) drain(state, at % 2 === 1, start + at)
    const kept = of(state, start + 30)
    expect(kept).toHaveLength(12)
    expect(kept.at(-1)).toEqual({ at: start + 21, aspect: 'use', to: 'draining' })
    const other = new PoolState({ random: () => 0.5, epoch: 'f' })
    other.restore(structuredClone(state.snapshot(start + 30)!), start + 40)
    other.watch(start + 1_000)
    expect(of(other, start + 1_000)).toEqual(kept)
    drain(other, false, start + 2_000)
    expect(of(other, start + 2_000).at(-1)).toEqual({ at: start + 2_000, aspect: 'use', to: 'serving' })
  })
})
