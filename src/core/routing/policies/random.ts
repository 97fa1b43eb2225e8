import { CostTable } from '../cost-table.ts'
import { definePolicy } from '../policy.ts'

const randomCosts = new CostTable(['weight'])

/** A random order in which weight is the chance to come first: exponential races (Efraimidis and Spirakis 2006). */
export const randomChoice = definePolicy({
  name: 'random',
  needs: [],
  rank: (_request, candidates, draw) =>
    randomCosts.fill(candidates, ({ weight }) => -Math.log(1 - draw()) / weight).byCost(),
})
