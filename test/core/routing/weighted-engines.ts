/** Arbitrary engines with weights and loads, for property tests. */
import * as fc from 'fast-check'

export const weightedEngines = fc.uniqueArray(
  fc.record({
    id: fc.string({ minLength: 1, maxLength: 4 }),
    weight: fc.integer({ min: 1, max: 5 }),
    requests: fc.nat(20),
    foreignRequests: fc.constant(0),
  }),
  { selector: ({ id }) => id, minLength: 1, maxLength: 10 },
)

export const chanceBelowOne = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
