import { type PolicyKind, readOptions } from '../options.ts'
import { type Policy, definePolicy } from '../policy.ts'
import { sortPlaces, CostTable } from '../cost-table.ts'
import { rendezvous, withinBound, hashText } from '../rendezvous.ts'

const leastLoadedCosts = new CostTable(['requests', 'weight'])

/**
 * Fewest running and waiting requests for its weight, this one included: those booked here and those of other sources
 * by the engine's latest report. Without a recent report, those booked here.
 */
export const leastLoaded = definePolicy({
  name: 'least_loaded',
  needs: ['requests', 'foreignRequests'],
  rank: (_request, candidates) =>
    leastLoadedCosts
      .fill(candidates, ({ requests, foreignRequests, weight }) => (requests + foreignRequests + 1) / weight)
      .byCost(),
})

const roundRobinCosts = new CostTable(['turn'])

/**
 * Everyone in turn, by weight: the least virtual time is next (start-time fair queueing), so who comes back does not
 * catch up.
 */
export const roundRobin = definePolicy({
  name: 'round_robin',
  needs: ['turn'],
  rank: (_request, candidates) => roundRobinCosts.fill(candidates, ({ turn }) => turn).byCost(),
})

const randomCosts = new CostTable(['weight'])

/** A random order in which weight is the chance to come first: exponential races (Efraimidis and Spirakis 2006). */
export const randomChoice = definePolicy({
  name: 'random',
  needs: [],
  rank: (_request, candidates, draw) =>
    randomCosts.fill(candidates, ({ weight }) => -Math.log(1 - draw()) / weight).byCost(),
})

const qpsCosts = new CostTable(['arrivals', 'weight'])

/** Fewest arrivals in the last 60 s for its weight, this one included. */
export const qps = definePolicy({
  name: 'qps',
  needs: ['arrivals'],
  rank: (_request, candidates) => qpsCosts.fill(candidates, ({ arrivals, weight }) => (arrivals + 1) / weight).byCost(),
})

/** Share of the mean load above which a session moves on. */
export const SESSION_BOUND = 1.25

/**
 * A session stays on its engine while that holds no more than 1.25 times its fair share; without a session, the least
 * loaded.
 */
export const session = definePolicy({
  name: 'session',
  needs: ['requests', 'foreignRequests'],
  rank(request, candidates, random) {
    const costTable = leastLoaded.rank(request, candidates, random)
    if (request.session === null) return costTable
    const placed = candidates.map(({ id, requests, weight }, place) => ({ id, requests, weight, place }))
    withinBound(rendezvous(hashText(request.session), placed), SESSION_BOUND).forEach(({ place }, position) => {
      costTable.order[position] = place
      costTable.costs[place] = position
    })
    return costTable
  },
})

/** The less loaded of two engines drawn at random; the others follow by load, for failover. */
export const powerOfTwo = definePolicy({
  name: 'power_of_two',
  needs: ['requests', 'foreignRequests'],
  rank(request, candidates, random) {
    const costTable = leastLoaded.rank(request, candidates, random)
    const { costs, order, ranked } = costTable
    if (ranked < 2) return costTable
    const first = Math.floor(random() * ranked)
    const second = (first + 1 + Math.floor(random() * (ranked - 1))) % ranked
    order[0] = first
    order[1] = second
    for (let place = 0, at = 2; place < ranked; place++) if (place !== first && place !== second) order[at++] = place
    sortPlaces(order, costs, 0, 2)
    sortPlaces(order, costs, 2, ranked)
    return costTable
  },
})

/** The policies without options. */
export const simplePolicies: readonly PolicyKind[] = [
  withoutOptions(roundRobin, 'Every engine in turn, by weight.', 'as everywhere'),
  withoutOptions(randomChoice, 'Any engine, by weight.', 'as everywhere'),
  withoutOptions(
    session,
    'Consistent hash of the session with bounded load; without a session, the least loaded.',
    'production-stack; Mirrokni et al. 2016',
  ),
  withoutOptions(qps, 'Fewest arrivals in a sliding 60 s window.', 'production-stack'),
  withoutOptions(
    leastLoaded,
    'Fewest running and waiting requests, those of other sources included where engines report them.',
    'as everywhere',
  ),
  withoutOptions(powerOfTwo, 'The less loaded of two engines drawn at random.', 'vllm-router; Mitzenmacher 2001'),
]

function withoutOptions(policy: Policy, doc: string, source: string): PolicyKind {
  const create: PolicyKind['create'] = (options) => {
    readOptions({}, options)
    return policy
  }
  return { name: policy.name, doc, source, options: {}, create }
}
