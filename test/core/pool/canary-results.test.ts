import { describe, expect, it } from 'vitest'
import { PoolState } from '../../../src/core/pool/pool-state.ts'
import { servingEngine } from '../../../src/core/contract/placement.ts'
import type { PoolConfig } from '../../../src/core/contract/pool-config.ts'
import { admission, engines, pool } from '../../kit/pool-fixtures.ts'

const NOW = 1_000_000

function poolWith(canary: PoolConfig['canary'], names = ['a', 'b', 'c']) {
  const state = new PoolState({ random: () => 0.5, epoch: 'e' })
  const policy = { name: 'round_robin', options: {} }
  const configure = (version: number, next: PoolConfig['canary']): void =>
    void state.configure(version, pool({ policy, engines: engines(...names), canary: next ?? null }), NOW)
  configure(1, canary)
  /** Compares each pair; those with a wrong engine disagree. */
  const compare = (rounds: number, wrong: readonly string[]): void => {
    for (let at = 0; at < rounds; at++)
      for (const engine of names)
        for (const other of names) {
          if (engine >= other) continue
          const agree = !wrong.includes(engine) && !wrong.includes(other)
          state.observe([{ kind: 'compared', engine, other, agree }], NOW)
        }
  }
  const used = (): Set<string> => {
    const placed = Array.from({ length: 9 }, () => state.admit(admission({ isLastResort: true }), NOW))
    return new Set(placed.flatMap((one) => ('refusal' in one ? [] : [servingEngine(one.placement)])))
  }
  return { state, configure, compare, used }
}

describe('comparisons of the answers of a pool', () => {
  it('comparisons of the answers of a pool report the engine whose answers stand out, and leave it in use', () => {
    const { state, compare, used } = poolWith({ eject: false })
    compare(20, ['b'])
    const { events } = state.watch(NOW)
    expect(events).toMatchObject([{ event: 'engine_disagrees', engine: 'b', since: NOW, taken_out: false }])
    expect(used()).toEqual(new Set(['a', 'b', 'c']))
    const digest = state.digest(NOW).engines.find(({ id }) => id === 'b')
    expect(digest?.compared).toEqual({ total: 40, disagreed: 40, standsOutSince: NOW })
  })

  it('comparisons of the answers of a pool take it out of use if configured, until it fits again or ejection is switched off', () => {
    const { state, configure, compare, used } = poolWith({ eject: true })
    compare(20, ['b'])
    expect(used()).toEqual(new Set(['a', 'c']))
    compare(20, [])
    expect(state.watch(NOW).events.map(({ event }) => event)).toContain('engine_agrees')
    expect(used()).toEqual(new Set(['a', 'b', 'c']))
    compare(40, ['a'])
    expect(used()).toEqual(new Set(['b', 'c']))
    configure(2, { eject: false })
    expect(used()).toEqual(new Set(['a', 'b', 'c']))
  })

  it('comparisons of the answers of a pool take out no more engines than the maximum share', () => {
    const { state, compare, used } = poolWith({ eject: true }, ['a', 'b', 'c', 'd', 'e', 'f', 'g'])
    state.configure(
      2,
      pool({
        policy: { name: 'round_robin', options: {} },
        engines: engines('a', 'b', 'c', 'd', 'e', 'f', 'g'),
        canary: { eject: true },
        circuit: { failures: 3, openMs: 10_000, maxEjectedShare: 0.1, panicShare: 0 },
      }),
      NOW,
    )
    compare(12, ['a', 'b'])
    const standing = state.digest(NOW).engines.filter(({ compared }) => compared?.standsOutSince === NOW)
    expect(standing.map(({ id }) => id)).toEqual(['a', 'b'])
    expect(used().size).toBe(6)
  })

  it('comparisons of the answers of a pool have no effect in a pool without a canary, nor for an unknown engine', () => {
    const { state, compare } = poolWith(null)
    compare(20, ['b'])
    expect(state.watch(NOW).events).toEqual([])
    const other = poolWith({ eject: true })
    other.state.observe([{ kind: 'compared', engine: 'a', other: 'gone', agree: false }], NOW)
    for (const engine of [...state.digest(NOW).engines, ...other.state.digest(NOW).engines])
      expect(engine).not.toHaveProperty('compared')
  })
})
