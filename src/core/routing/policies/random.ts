import { CostTable } from '../cost-table.ts'
import { definePlainPolicy } from '../plain-policy.ts'

const randomCosts = new CostTable(['weight'])

/** A random order in which weight is the chance to come first: exponential races (Efraimidis and Spirakis 2006). */
export const randomChoice = definePlainPolicy({
  name: 'random',
  doc: 'Any engine, by weight.',
  source: 'as everywhere',
  needs: [],
  rank: (_request, candidates, draw) =>
    randomCosts.fill(candidates, ({ weight }) => -Math.log(1 - draw()) / weight).byCost(),
})
