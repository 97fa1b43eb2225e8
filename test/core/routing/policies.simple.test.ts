import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { leastLoaded } from '../../../src/core/routing/policies/least-loaded.ts'
import { powerOfTwo } from '../../../src/core/routing/policies/power-of-two.ts'
import { qps } from '../../../src/core/routing/policies/qps.ts'
import { policiesWithoutOptions } from '../../../src/core/routing/policies/without-options.ts'
import type { Candidate, RouteRequest } from '../../../src/core/routing/policy.ts'
import { rendezvous, withinBound } from '../../../src/core/routing/rendezvous.ts'
import { asRanked } from './ranked-policy.ts'

const request: RouteRequest = {
  id: 'r',
  model: 'm',
  adapter: null,
  promptTokens: 1,
  blockTokens: 64,
  blockCount: 0,
  prefixKey: 1,
  session: null,
  expectedOutputTokens: null,
  usualOutputTokens: null,
}

function loaded(...requests: number[]): Candidate<'requests' | 'foreignRequests'>[] {
  return requests.map((count, index) => ({ id: `e${index}`, weight: 1, requests: count, foreignRequests: 0 }))
}

const weighted = fc.uniqueArray(
  fc.record({
    id: fc.string({ minLength: 1, maxLength: 4 }),
    weight: fc.integer({ min: 1, max: 5 }),
    requests: fc.nat(20),
    foreignRequests: fc.constant(0),
  }),
  {
    selector: ({ id }) => id,
    minLength: 1,
    maxLength: 10,
  },
)

describe('least_loaded', () => {
  it('keeps the order it was given among equals', () => {
    expect(asRanked(leastLoaded, request, loaded(1, 0, 1, 0), () => 0).map(({ engine }) => engine)).toEqual([
      'e1',
      'e3',
      'e0',
      'e2',
    ])
  })
})

describe('power_of_two', () => {
  it('always compares two distinct engines, and names each once', () => {
    fc.assert(
      fc.property(
        weighted,
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (engines, one, other) => {
          const draws = [one, other]
          const ranked = asRanked(powerOfTwo, request, engines, () => draws.shift()!)
          expect(ranked.map(({ engine }) => engine).sort()).toEqual(engines.map(({ id }) => id).sort())
          if (ranked.length > 1) expect(ranked[0]!.cost).toBeLessThanOrEqual(ranked[1]!.cost)
        },
      ),
    )
  })

  it('can choose any engine but the most loaded', () => {
    const seen = new Set<string>()
    for (const one of [0, 0.3, 0.6, 0.9]) {
      for (const other of [0, 0.4, 0.8]) {
        const draws = [one, other]
        seen.add(asRanked(powerOfTwo, request, loaded(0, 1, 2, 3), () => draws.shift()!)[0]!.engine)
      }
    }
    expect([...seen].sort()).toEqual(['e0', 'e1', 'e2'])
  })
})

describe('qps', () => {
  it('divides arrivals, including the new one, by weight', () => {
    const engines = [
      { id: 'small', weight: 1, arrivals: 1 },
      { id: 'large', weight: 4, arrivals: 4 },
    ]
    expect(asRanked(qps, request, engines, () => 0).map(({ engine, cost }) => [engine, cost])).toEqual([
      ['large', 5 / 4],
      ['small', 2],
    ])
  })
})

describe('rendezvous', () => {
  it('does not depend on the order of the list', () => {
    fc.assert(
      fc.property(weighted, fc.nat(), (engines, key) => {
        expect(rendezvous(key, engines.toReversed())).toEqual(rendezvous(key, engines))
      }),
    )
  })

  it('keeps the order of the others when one engine is removed', () => {
    fc.assert(
      fc.property(weighted, fc.nat(), (engines, key) => {
        const [gone, ...left] = engines
        expect(rendezvous(key, left)).toEqual(rendezvous(key, engines).filter((engine) => engine !== gone))
      }),
    )
  })

  it('gives a weight of three three times the keys', () => {
    let heavy = 0
    for (let key = 0; key < 4_000; key++)
      if (
        rendezvous(key, [
          { id: 'a', weight: 3 },
          { id: 'b', weight: 1 },
        ])[0]!.id === 'a'
      )
        heavy += 1
    expect(heavy).toBeGreaterThan(2_850)
    expect(heavy).toBeLessThan(3_150)
  })
})

describe('bounded load', () => {
  it('orders engines within their share first, and keeps all', () => {
    fc.assert(
      fc.property(weighted, (engines) => {
        const bounded = withinBound(engines, 1.25)
        expect(bounded).toHaveLength(engines.length)
        const total = engines.reduce((sum, { requests }) => sum + requests, 1)
        const weights = engines.reduce((sum, { weight }) => sum + weight, 0)
        const [first] = bounded
        expect(first!.requests).toBeLessThan(Math.ceil((1.25 * total * first!.weight) / weights))
      }),
    )
  })

  it('rounds a share up, so that the first engine keeps its requests at small loads', () => {
    const order = (...requests: number[]) =>
      withinBound(
        requests.map((count, at) => ({ id: `e${at}`, weight: 1, requests: count })),
        1.25,
      ).map(({ id }) => id)
    // A fair share of 1.25 * 2 / 2 = 1.25 allows a second request, but not a third.
    expect(order(1, 0)).toEqual(['e0', 'e1'])
    expect(order(2, 0)).toEqual(['e1', 'e0'])
  })
})

describe('policies without options', () => {
  it.each(policiesWithoutOptions.map((kind) => [kind.name, kind] as const))('%s refuses options', (_name, kind) => {
    expect(() => kind.create({ speed: 9 })).toThrow(/speed/)
    expect(kind.create({}).name).toBe(kind.name)
  })
})
