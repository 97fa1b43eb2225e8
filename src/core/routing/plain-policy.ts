import { type PolicyKind, readOptions } from './policy-options.ts'
import type { Policy, Signal } from './policy.ts'

/**
 * Policy without options. An alias, because the declarations of the package name the types of exported policies.
 * `doc`: description, one line. `source`: source of the rule.
 */
type PlainPolicy<Needs extends Signal = Signal> = Policy<Needs> & Pick<PolicyKind, 'doc' | 'source'>

/** Infers `Needs` from the list, as `definePolicy` does. */
export const definePlainPolicy = <const Needs extends Signal>(policy: PlainPolicy<Needs>): PlainPolicy<Needs> => policy

/** Returns the policy as the list of policies has it. */
export function withoutOptions(policy: PlainPolicy): PolicyKind {
  const { name, doc, source } = policy
  const create: PolicyKind['create'] = (options) => {
    readOptions({}, options)
    return policy
  }
  return { name, doc, source, options: {}, create }
}
