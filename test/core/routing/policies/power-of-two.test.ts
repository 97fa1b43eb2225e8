import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { powerOfTwo } from '../../../../src/core/routing/policies/power-of-two.ts'
import { asRanked, candidates, routeRequest } from '../ranked-policy.ts'
import { chanceBelowOne, weightedEngines } from '../weighted-engines.ts'

it('power_of_two compares two distinct engines and lists each engine once', () => {
  fc.assert(
    fc.property(weightedEngines, chanceBelowOne, chanceBelowOne, (engines, one, other) => {
      const draws = [one, other]
      const ranked = asRanked(powerOfTwo, routeRequest(), engines, () => draws.shift()!)
      expect(ranked.map(({ engine }) => engine).sort()).toEqual(engines.map(({ id }) => id).sort())
      if (ranked.length > 1) expect(ranked[0]!.cost).toBeLessThanOrEqual(ranked[1]!.cost)
    }),
  )
})

it('power_of_two can choose any engine except the most loaded', () => {
  const engines = candidates({ e0: {}, e1: { requests: 1 }, e2: { requests: 2 }, e3: { requests: 3 } })
  const chosen = new Set<string>()
  for (const one of [0, 0.3, 0.6, 0.9]) {
    for (const other of [0, 0.4, 0.8]) {
      const draws = [one, other]
      chosen.add(asRanked(powerOfTwo, routeRequest(), engines, () => draws.shift()!)[0]!.engine)
    }
  }
  expect([...chosen].sort()).toEqual(['e0', 'e1', 'e2'])
})
