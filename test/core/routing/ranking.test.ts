import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { policyKinds } from '../../../src/core/routing/policies/policies.ts'
import type { Candidate, RouteRequest } from '../../../src/core/routing/policy.ts'
import { Ranking } from '../../../src/core/routing/ranking.ts'
import { softmax } from '../../../src/core/routing/softmax.ts'
import { CostTable } from '../../../src/core/routing/cost-table.ts'
import { sortWithinTolerance } from '../../../src/core/routing/sort-within-tolerance.ts'
import { sortPlaces } from '../../../src/core/routing/sort-places.ts'
import { asRanked } from './ranked-policy.ts'

const share = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
/** Few distinct values, so that many are equal. */
const someCosts = fc.array(fc.oneof(fc.integer({ min: 0, max: 9 }), fc.double({ min: 0, max: 9, noNaN: true })), {
  maxLength: 150,
})

function costTableOf(costs: readonly number[]): CostTable<'twice'> {
  const costTable = new CostTable(['twice']).reset(costs.length)
  costs.forEach((cost, place) => {
    costTable.costs[place] = cost
    costTable.terms.twice[place] = 2 * cost
  })
  return costTable
}

const placesIn = ({ order, ranked }: CostTable): number[] => [...order.subarray(0, ranked)]
const naively = (costs: readonly number[]): number[] =>
  costs.map((_, place) => place).sort((one, other) => costs[one]! - costs[other]!)

describe('sortPlaces', () => {
  it('sortPlaces equals a stable sort of the range and leaves the rest unchanged', () => {
    fc.assert(
      fc.property(someCosts, share, share, (keys, one, other) => {
        const [from, to] = [one, other].map((at) => Math.floor(at * (keys.length + 1))).sort((a, b) => a - b) as [
          number,
          number,
        ]
        const places = Int32Array.from(keys.map((_, at) => keys.length - 1 - at))
        const expected = [...places]
        expected.splice(from, to - from, ...expected.slice(from, to).sort((a, b) => keys[a]! - keys[b]!))
        sortPlaces(places, Float64Array.from(keys), from, to)
        expect([...places]).toEqual(expected)
      }),
    )
  })
})

describe('a ranking', () => {
  it('by felt cost rotates engines as good as the best, and sorts the others', () => {
    fc.assert(
      fc.property(
        someCosts,
        fc.double({ min: 0, max: 4, noNaN: true }),
        fc.integer({ min: 1, max: 4 }),
        (costs, within, every) => {
          const alike = (place: number) => place % every === 0
          const min = Math.min(...costs)
          const best = costs.indexOf(min)
          const isGood = (place: number) =>
            within > 0 && costs[place]! <= min + within && (place === best || alike(place))
          const order = naively(costs)
          const expected = [...order.filter(isGood).sort((a, b) => a - b), ...order.filter((place) => !isGood(place))]
          expect(
            placesIn(
              sortWithinTolerance(costTableOf(costs), {
                tolerance: within,
                isTie: (place) => place === best || alike(place),
              }),
            ),
          ).toEqual(expected)
        },
      ),
    )
  })

  it('by softmax moves only the winner', () => {
    fc.assert(
      fc.property(someCosts, share, fc.constantFrom(0, 0.1, 3), (costs, draw, temperature) => {
        const drawn = placesIn(softmax(costTableOf(costs).byCost(), temperature, 'range', () => draw))
        const [winner] = drawn
        const order = naively(costs)
        expect(drawn).toEqual(winner === undefined ? [] : [winner, ...order.filter((place) => place !== winner)])
        if (temperature === 0) expect(drawn).toEqual(order)
      }),
    )
  })

  it('a ranking is correct in a buffer of a longer ranking', () => {
    const ranked = new Ranking()
    fc.assert(
      fc.property(fc.array(someCosts, { minLength: 1, maxLength: 4 }), (histories) => {
        for (const costs of histories) {
          const candidates = costs.map((_, place) => ({ id: `e${place}` }))
          const expected = naively(costs).map((place) => ({
            engine: `e${place}`,
            cost: costs[place],
            terms: { twice: 2 * costs[place]! },
          }))
          expect(ranked.copy(costTableOf(costs).byCost(), candidates).candidates()).toEqual(expected)
        }
      }),
    )
  })
})

const small = fc.nat(9)
const seconds = fc.double({ min: 0, max: 2, noNaN: true })
const candidate: fc.Arbitrary<Omit<Candidate, 'id'>> = fc.record({
  weight: fc.constantFrom(1, 1, 2, 0.5),
  requests: small,
  arrivals: small,
  turn: small,
  recentWork: small,
  recentNewTokens: small,
  activeBlocks: small,
  newActiveBlocks: small,
  liveTokens: fc.integer({ min: -1, max: 1000 }),
  liveSharers: fc.integer({ min: 0, max: 50 }),
  placeWaitS: fc.double({ min: 0, max: 100, noNaN: true }),
  delayS: fc.double({ min: -1, max: 100, noNaN: true }),
  laterS: fc.double({ min: -1, max: 100, noNaN: true }),
  cachedTokens: fc.nat(1000),
  slowTokens: fc.record({ host: fc.nat(300), disk: fc.nat(300), remote: fc.nat(300) }),
  lookupTokens: fc.nat(1000),
  queuedPrefills: small,
  usualQueuedPrefills: small,
  queuedPrefillTokens: small,
  queuedWork: small,
  queuedPrefillS: seconds,
  foreignRequests: small,
  capacityBlocks: fc.constantFrom(Infinity, 10, 100),
  rttS: seconds,
  costModel: fc.record({ fixedS: seconds, perTokenS: seconds, perPairS: seconds }),
  confidence: share,
  itlS: seconds,
  addedItlS: seconds,
  warmth: share,
  adapterFit: fc.constantFrom(-1, 0, 1),
})
const fleet = fc
  .array(candidate, { minLength: 1, maxLength: 40 })
  .map((list) => list.map((one, at) => ({ ...one, id: `e${at}` })))
const request: RouteRequest = {
  id: 'r',
  model: 'm',
  adapter: null,
  promptTokens: 1000,
  blockTokens: 64,
  blockCount: 15,
  session: 's',
  tenant: '',
  expectedOutputTokens: null,
  usualOutputTokens: null,
}

function chance(seed: number): () => number {
  let state = seed
  return () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 2 ** 32
}

describe.each(policyKinds.map((kind) => [kind.name, kind] as const))('%s', (_name, kind) => {
  const ranking = (candidates: readonly Candidate[]) => asRanked(kind.create({}), request, candidates, chance(7))

  it('a policy ranks a fleet independently of previous contents of its cost table', () => {
    fc.assert(
      fc.property(fleet, fleet, (one, other) => {
        const before = ranking(one)
        ranking(other)
        expect(ranking(one)).toEqual(before)
      }),
      { numRuns: 30 },
    )
  })

  it('a policy lists every candidate once, or none, with finite costs and terms', () => {
    fc.assert(
      fc.property(fleet, (candidates) => {
        const ranked = ranking(candidates)
        if (ranked.length > 0)
          expect(ranked.map(({ engine }) => engine).sort()).toEqual(candidates.map(({ id }) => id).sort())
        for (const { cost, terms } of ranked)
          expect([cost, ...Object.values(terms)].every((value) => Number.isFinite(value))).toBe(true)
      }),
      { numRuns: 30 },
    )
  })

  it('a policy is sorted by cost, except for policies that rotate or draw', () => {
    const exempt = ['power_of_two', 'predicted'].includes(kind.name)
    fc.assert(
      fc.property(fleet, (candidates) => {
        const costs = ranking(candidates).map(({ cost }) => cost)
        if (!exempt) expect(costs).toEqual([...costs].sort((one, other) => one - other))
      }),
      { numRuns: 30 },
    )
  })
})
