import { expect, it } from 'vitest'
import { chance } from '../../../../packages/replay/src/replay/chance.ts'
import { asRanked, candidates, policyNamed, routeRequest } from '../ranked-policy.ts'

it('random puts an engine of weight 3 first three times as often as one of weight 1', () => {
  const engines = candidates({ heavy: { weight: 3 }, light: {} })
  const random = chance(1)
  let heavy = 0
  for (let draws = 0; draws < 4_000; draws++)
    if (asRanked(policyNamed('random'), routeRequest(), engines, random)[0]!.engine === 'heavy') heavy += 1
  expect(heavy).toBeGreaterThan(2_900)
  expect(heavy).toBeLessThan(3_100)
})
