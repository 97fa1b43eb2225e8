import { hashText } from '../hash.ts'
import { definePolicy } from '../policy.ts'
import { rendezvous, withinBound } from '../rendezvous.ts'
import { leastLoaded } from './least-loaded.ts'

/** Share of the mean load above which a session moves on. */
export const SESSION_BOUND = 1.25

/** A session stays on its engine while that holds no more than 1.25 times its fair share; without a session, the least loaded. */
export const session = definePolicy({
  name: 'session',
  needs: ['requests'],
  rank: (request, candidates, random) => {
    if (request.session === null) return leastLoaded.rank(request, candidates, random)
    const order = withinBound(rendezvous(hashText(request.session), candidates), SESSION_BOUND)
    return order.map(({ id, requests, weight }, position) => ({ engine: id, cost: position, terms: { requests, weight } }))
  },
})
