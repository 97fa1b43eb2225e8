import { definePolicy } from '../policy.ts'
import { Sheet } from '../sheet.ts'

const sheet = new Sheet(['weight'])

/** A random order in which weight is the chance to come first: exponential races (Efraimidis and Spirakis 2006). */
export const random = definePolicy({
  name: 'random',
  needs: [],
  rank: (_request, candidates, draw) => sheet.price(candidates, ({ weight }) => -Math.log(1 - draw()) / weight).byCost(),
})
