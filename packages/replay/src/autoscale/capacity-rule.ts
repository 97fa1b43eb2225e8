import type { ScalingRule } from './scaling-rule.ts'

/** The rate of the gateway's rule already awaits a decline: the mean of five minutes or of one, whichever is higher. */
const STABILIZATION_S = 60

/** The gateway's own rule: `firstlight_pool_replicas_needed`. */
export const capacityRule: ScalingRule = {
  name: 'capacity',
  stabilizationS: STABILIZATION_S,
  needed: ({ digest, replicas }) => digest().capacity?.[0]?.replicas ?? replicas,
}
