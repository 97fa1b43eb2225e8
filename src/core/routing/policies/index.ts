import type { PolicyConfig } from '../../cluster/contract.ts'
import type { Policy } from '../policy.ts'
import { leastLoaded } from './least-loaded.ts'
import { powerOfTwo } from './power-of-two.ts'
import { qps } from './qps.ts'
import { random } from './random.ts'
import { roundRobin } from './round-robin.ts'
import { session } from './session.ts'

export type PolicyOptions = PolicyConfig['options']

/** The policies a config may name, each made from its options. */
export const policies = {
  round_robin: () => roundRobin,
  random: () => random,
  session: () => session,
  qps: () => qps,
  least_loaded: () => leastLoaded,
  power_of_two: () => powerOfTwo,
} as const satisfies Record<string, (options: PolicyOptions) => Policy>

export type PolicyName = keyof typeof policies

export function isPolicyName(name: string): name is PolicyName {
  return Object.hasOwn(policies, name)
}

/** null: no such policy in this version. */
export function makePolicy(config: PolicyConfig): Policy | null {
  return isPolicyName(config.name) ? (policies[config.name] as (options: PolicyOptions) => Policy)(config.options) : null
}
