import type { Admission } from '../../contract/admission.ts'
import type { PolicyConfig, PoolConfig } from '../../contract/pool-config.ts'
import { createPolicy, policyKind } from '../../routing/policies/policies.ts'
import { qps } from '../../routing/policies/qps.ts'
import { session as sessionPolicy } from '../../routing/policies/session.ts'
import type { Policy } from '../../routing/policy.ts'

/** Configured policy and its fallbacks for missing signals: `session` if there is one, then `qps`. */
interface PolicyChain {
  readonly chain: readonly Policy[]
  /** Requested policy that could not be created. */
  readonly unusable: { readonly from: string; readonly reason: string } | null
}

/** Policies of a configuration. Overrides of a request create their own. */
export class PolicyChains {
  readonly #pool: PoolConfig
  /** Chains for requests with and without a session. */
  readonly #configured: { readonly session: PolicyChain; readonly none: PolicyChain }
  /** Shadow policy; null: none, or unknown to this version. */
  readonly shadow: Policy | null

  constructor(pool: PoolConfig) {
    this.#pool = pool
    this.#configured = { session: chainOf(pool.policy, [sessionPolicy, qps]), none: chainOf(pool.policy, [qps]) }
    const shadow = pool.shadow === null ? null : createPolicy(pool.shadow)
    this.shadow = shadow !== null && 'policy' in shadow ? shadow.policy : null
  }

  for(admission: Admission): PolicyChain {
    const hasSession = admission.session !== null
    const wanted = overridden(this.#pool.policy, admission)
    if (wanted !== null) return chainOf(wanted, hasSession ? [sessionPolicy, qps] : [qps])
    return hasSession ? this.#configured.session : this.#configured.none
  }
}

function chainOf(config: PolicyConfig, fallbacks: readonly Policy[]): PolicyChain {
  const made = createPolicy(config)
  if ('policy' in made)
    return { chain: [made.policy, ...fallbacks.filter((policy) => policy !== made.policy)], unusable: null }
  return { chain: fallbacks, unusable: { from: config.name, reason: made.problem } }
}

/** Returns the policy of a request's overrides; null: the pool's. Unknown options are ignored. */
function overridden(configured: PolicyConfig, { overrides }: Admission): PolicyConfig | null {
  if (overrides === null) return null
  const name = overrides.policy ?? configured.name
  const known = policyKind(name)?.options ?? {}
  const options: Record<string, number | string | boolean> = name === configured.name ? { ...configured.options } : {}
  if (overrides.overlapWeight !== undefined && 'overlapWeight' in known)
    options['overlapWeight'] = overrides.overlapWeight
  if (overrides.temperature !== undefined && 'temperature' in known) options['temperature'] = overrides.temperature
  return { name, options }
}
