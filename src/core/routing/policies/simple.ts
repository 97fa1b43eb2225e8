import { type PolicyKind, readOptions, type Words } from '../options.ts'
import type { Policy } from '../policy.ts'
import { leastLoaded } from './least-loaded.ts'
import { powerOfTwo } from './power-of-two.ts'
import { qps } from './qps.ts'
import { random } from './random.ts'
import { roundRobin } from './round-robin.ts'
import { session } from './session.ts'

/** The policies without options. */
export const simplePolicies: readonly PolicyKind[] = [
  withoutOptions(roundRobin, import.meta.bare || 'Every engine in turn, by weight.', import.meta.bare || 'as everywhere'),
  withoutOptions(random, import.meta.bare || 'Any engine, by weight.', import.meta.bare || 'as everywhere'),
  withoutOptions(session, import.meta.bare || 'Consistent hash of the session with bounded load; without a session, the least loaded.', import.meta.bare || 'production-stack; Mirrokni et al. 2016'),
  withoutOptions(qps, import.meta.bare || 'Fewest arrivals in a sliding 60 s window.', import.meta.bare || 'production-stack'),
  withoutOptions(leastLoaded, import.meta.bare || 'Fewest live requests.', import.meta.bare || 'as everywhere'),
  withoutOptions(powerOfTwo, import.meta.bare || 'The less loaded of two engines drawn at random.', import.meta.bare || 'vllm-router; Mitzenmacher 2001'),
]

function withoutOptions(policy: Policy, doc: Words, source: Words): PolicyKind {
  const create: PolicyKind['create'] = (options) => {
    readOptions({}, options)
    return policy
  }
  return { name: policy.name, doc, source, options: {}, create }
}
