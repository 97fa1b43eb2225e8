import { describe, expect, it } from 'vitest'
import { AffinityKeys } from '../../../src/core/routing/affinity-keys.ts'

const SYSTEM = 6

/** Blocks are chained: each hash depends on all earlier blocks. */
function prompt(talk: number, turns = 1, system = SYSTEM) {
  const blocks = new Uint32Array(2 * (system + 4 * turns))
  for (let at = 0; at < blocks.length; at++)
    blocks[at] = Math.imul((at < 2 * system ? 0 : talk) * 65_537 + at + 1, 0x9e3779b1)
  return { id: `${talk}-${turns}`, blocks, session: null as string | null, tenant: 't' }
}

const keysOf = (affinityKeys: AffinityKeys, talks: number, system = SYSTEM) =>
  Array.from({ length: talks }, (_, talk) => affinityKeys.keyOf(prompt(talk + 1, 1, system)))

describe('the affinity key', () => {
  it('the affinity key depends on the first blocks of a prompt', () => {
    const affinityKeys = new AffinityKeys()
    expect(affinityKeys.keyOf(prompt(1, 1))).toBe(affinityKeys.keyOf(prompt(1, 5)))
    expect(affinityKeys.keyOf(prompt(1, 1, 0))).not.toBe(affinityKeys.keyOf(prompt(2, 1, 0)))
  })

  it('the affinity key is equal for a few prompts with common first blocks', () => {
    expect(new Set(keysOf(new AffinityKeys(), 8)).size).toBe(1)
  })

  it('the affinity key skips a system prompt that all share and uses the blocks after it', () => {
    const affinityKeys = new AffinityKeys()
    keysOf(affinityKeys, 100)
    expect(new Set(keysOf(affinityKeys, 200)).size).toBe(200)
    expect(affinityKeys.keyOf(prompt(7, 3))).toBe(affinityKeys.keyOf(prompt(7, 6)))
  })

  it('the affinity key groups prompts by their first blocks if each group is small', () => {
    const affinityKeys = new AffinityKeys()
    const keys = Array.from({ length: 1_000 }, (_, at) => affinityKeys.keyOf(prompt(1 + (at % 20), 1, 0)))
    expect(new Set(keys).size).toBe(20)
  })

  it('the affinity key is null if all prompts are equal', () => {
    const affinityKeys = new AffinityKeys()
    for (let at = 0; at < 200; at++) affinityKeys.keyOf(prompt(1))
    expect(affinityKeys.keyOf(prompt(1))).toBeNull()
    expect(affinityKeys.keyOf(prompt(1, 2))).not.toBeNull()
  })

  it('the affinity key uses a prefix again after its share of prompts has fallen', () => {
    const affinityKeys = new AffinityKeys()
    keysOf(affinityKeys, 300)
    for (let at = 0; at < 4_000; at++) affinityKeys.keyOf(prompt(1_000 + at, 1, 0))
    expect(new Set(keysOf(affinityKeys, 8)).size).toBe(1)
  })

  it('the affinity key is the session if the request has one', () => {
    const affinityKeys = new AffinityKeys()
    const keys = Array.from({ length: 300 }, (_, talk) => affinityKeys.keyOf({ ...prompt(talk), session: 's' }))
    expect(new Set(keys).size).toBe(1)
  })

  it('the affinity key differs between tenants that name the same session', () => {
    const affinityKeys = new AffinityKeys()
    const of = (tenant: string, session: string) => affinityKeys.keyOf({ ...prompt(1), tenant, session })
    expect(of('a', 's')).toBe(of('a', 's'))
    expect(of('a', 's')).not.toBe(of('b', 's'))
    expect(of('ab', 'c')).not.toBe(of('a', 'bc'))
  })
})
