import { type PolicyKind, readOptions } from '../policy-options.ts'
import type { Policy } from '../policy.ts'
import { leastLoaded } from './least-loaded.ts'
import { powerOfTwo } from './power-of-two.ts'
import { qps } from './qps.ts'
import { randomChoice } from './random.ts'
import { roundRobin } from './round-robin.ts'
import { session } from './session.ts'

/** The policies without options. */
export const policiesWithoutOptions: readonly PolicyKind[] = [
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
