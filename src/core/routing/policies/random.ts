import { byCost } from '../by-cost.ts'
import { definePolicy } from '../policy.ts'

/** A random order in which weight is the chance to come first: exponential races (Efraimidis and Spirakis 2006). */
export const random = definePolicy({
  name: 'random',
  needs: [],
  rank: (_request, candidates, draw) =>
    byCost(candidates, ({ weight }) => ({ cost: -Math.log(1 - draw()) / weight, terms: { weight } })),
})
