import { describe, expect, it } from 'vitest'
import { chance } from '../../../packages/replay/src/replay/chance.ts'
import { Disagreements } from '../../../src/core/canary/disagreements.ts'

interface World {
  readonly seed: number
  readonly engines: number
  /** Share of comparisons of sound engines that disagree. */
  readonly base: number
  /** Engines whose answers are wrong. */
  readonly wrong?: readonly number[]
  /** Share of their comparisons that disagree. */
  readonly wrongShare?: number
}

/** Random pairs of engines, as the gateway compares them. */
class Pairs {
  readonly seen = new Disagreements()
  readonly changes: string[] = []
  wrong: ReadonlySet<number>
  readonly #world: World
  readonly #random: () => number

  constructor(world: World) {
    this.#world = world
    this.#random = chance(world.seed)
    this.wrong = new Set(world.wrong ?? [])
  }

  compare(count: number): this {
    const { engines, base, wrongShare = 1 } = this.#world
    for (let at = 0; at < count; at++) {
      const one = Math.floor(this.#random() * engines)
      const other = (one + 1 + Math.floor(this.#random() * (engines - 1))) % engines
      const isWrong = this.wrong.has(one) || this.wrong.has(other)
      const disagrees = this.#random() < (isWrong ? wrongShare : base)
      const changed = this.seen.record(`e${one}`, `e${other}`, !disagrees)
      if (changed !== null) this.changes.push(changed)
    }
    return this
  }

  get standing(): string[] {
    const ids = Array.from({ length: this.#world.engines }, (_, at) => `e${at}`)
    return ids.filter((id) => this.seen.count(id).standsOut)
  }
}

const SEEDS = Array.from({ length: 8 }, (_, at) => at + 1)

describe('disagreements of engines', () => {
  it.each([0, 0.05, 0.3, 0.9])('single out no engine of sound ones that disagree in a share of %s', (base) => {
    for (const seed of SEEDS)
      for (const engines of [2, 3, 8]) expect(new Pairs({ seed, engines, base }).compare(120).changes).toEqual([])
  })

  it.each([
    [3, 0, 60],
    [3, 0.1, 120],
    [8, 0.1, 150],
  ])('single out the wrong one of %i engines at a base rate of %s within %i comparisons', (engines, base, limit) => {
    for (const seed of SEEDS)
      expect(new Pairs({ seed, engines, base, wrong: [1] }).compare(limit).standing).toEqual(['e1'])
  })

  it('single out an engine that is wrong in half of its answers', () => {
    for (const seed of SEEDS) {
      const world = { seed, engines: 4, base: 0.05, wrong: [2], wrongShare: 0.5 }
      expect(new Set(new Pairs(world).compare(500).changes)).toEqual(new Set(['e2']))
    }
  })

  it('single out two wrong ones of five, and none of the others', () => {
    for (const seed of SEEDS)
      expect(new Pairs({ seed, engines: 5, base: 0.05, wrong: [0, 3] }).compare(500).standing).toEqual(['e0', 'e3'])
  })

  it('disagreements of engines do not tell which of two engines is wrong', () => {
    for (const seed of SEEDS)
      expect(new Pairs({ seed, engines: 2, base: 0, wrong: [0] }).compare(400).changes).toEqual([])
  })

  it('disagreements of engines let an engine fit again after it was repaired, once', () => {
    for (const seed of SEEDS) {
      const pairs = new Pairs({ seed, engines: 3, base: 0.05, wrong: [1] }).compare(120)
      pairs.wrong = new Set()
      pairs.compare(120)
      expect(pairs.changes).toEqual(['e1', 'e1'])
      expect(pairs.standing).toEqual([])
    }
  })

  it('disagreements of engines are counted for both engines, and forgotten with an engine', () => {
    const seen = new Disagreements()
    seen.record('a', 'b', false)
    seen.record('b', 'c', true)
    expect(seen.count('b')).toEqual({ of: 2, hits: 1, standsOut: false })
    seen.forget('a')
    expect(seen.count('b')).toEqual({ of: 1, hits: 0, standsOut: false })
  })
})
