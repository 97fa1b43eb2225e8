import { sessionKey } from '../affinity-keys.ts'
import { definePlainPolicy } from '../plain-policy.ts'
import { rendezvous, withinBound } from '../rendezvous.ts'
import { leastLoaded } from './least-loaded.ts'

/** Share of the mean load above which a session moves on. */
export const SESSION_BOUND = 1.25

/**
 * A session stays on its engine while that holds no more than 1.25 times its fair share; without a session, the least
 * loaded.
 */
export const session = definePlainPolicy({
  name: 'session',
  doc: 'Consistent hash of the session with bounded load; without a session, the least loaded.',
  source: 'production-stack; Mirrokni et al. 2016',
  needs: ['requests', 'foreignRequests'],
  rank(request, candidates, random) {
    const costTable = leastLoaded.rank(request, candidates, random)
    const key = sessionKey(request)
    if (key === null) return costTable
    const placed = candidates.map(({ id, requests, weight }, place) => ({ id, requests, weight, place }))
    withinBound(rendezvous(key, placed), SESSION_BOUND).forEach(({ place }, position) => {
      costTable.order[position] = place
      costTable.costs[place] = position
    })
    return costTable
  },
})
