import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { rendezvous, withinBound } from '../../../src/core/routing/rendezvous.ts'
import { weightedEngines } from './weighted-engines.ts'

it('a rendezvous order does not depend on the order of the list', () => {
  fc.assert(
    fc.property(weightedEngines, fc.nat(), (engines, key) => {
      expect(rendezvous(key, engines.toReversed())).toEqual(rendezvous(key, engines))
    }),
  )
})

it('a rendezvous order keeps the order of the others when one engine is removed', () => {
  fc.assert(
    fc.property(weightedEngines, fc.nat(), (engines, key) => {
      const [gone, ...left] = engines
      expect(rendezvous(key, left)).toEqual(rendezvous(key, engines).filter((engine) => engine !== gone))
    }),
  )
})

it('a rendezvous order gives an engine of weight three three times the keys', () => {
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

it('withinBound puts engines below their share first, and keeps all', () => {
  fc.assert(
    fc.property(weightedEngines, (engines) => {
      const bounded = withinBound(engines, 1.25)
      expect(bounded).toHaveLength(engines.length)
      const total = engines.reduce((sum, { requests }) => sum + requests, 1)
      const weights = engines.reduce((sum, { weight }) => sum + weight, 0)
      const [first] = bounded
      expect(first!.requests).toBeLessThan(Math.ceil((1.25 * total * first!.weight) / weights))
    }),
  )
})

it('withinBound rounds a share up, so that the first engine keeps its requests at small loads', () => {
  const order = (...requests: number[]) =>
    withinBound(
      requests.map((count, at) => ({ id: `e${at}`, weight: 1, requests: count })),
      1.25,
    ).map(({ id }) => id)
  // A fair share of 1.25 * 2 / 2 = 1.25 allows a second request, but not a third.
  expect(order(1, 0)).toEqual(['e0', 'e1'])
  expect(order(2, 0)).toEqual(['e1', 'e0'])
})
