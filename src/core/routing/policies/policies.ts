import type { PolicyConfig } from '../../contract/pool-config.ts'
import type { PolicyKind } from '../policy-options.ts'
import { withoutOptions } from '../plain-policy.ts'
import type { Policy } from '../policy.ts'
import { predicted } from './predicted.ts'
import { prefix } from './prefix.ts'
import { kvAware } from './kv-aware.ts'
import { lmetric } from './lmetric.ts'
import { ttft } from './ttft.ts'
import { activeBlocks } from './active-blocks.ts'
import { leastLoaded } from './least-loaded.ts'
import { powerOfTwo } from './power-of-two.ts'
import { qps } from './qps.ts'
import { randomChoice } from './random.ts'
import { roundRobin } from './round-robin.ts'
import { session } from './session.ts'

/** Policies that a configuration may name, in the order of the docs. A new policy is a new file and one line here. */
export const policyKinds: readonly PolicyKind[] = [
  predicted,
  activeBlocks,
  ttft,
  lmetric,
  prefix,
  kvAware,
  withoutOptions(roundRobin),
  withoutOptions(randomChoice),
  withoutOptions(session),
  withoutOptions(qps),
  withoutOptions(leastLoaded),
  withoutOptions(powerOfTwo),
]

const byName: ReadonlyMap<string, PolicyKind> = new Map(policyKinds.map((kind) => [kind.name, kind]))

/** Returns the policy; null: unknown to this version. */
export function policyKind(name: string): PolicyKind | null {
  return byName.get(name) ?? null
}

type PolicyOrProblem = { readonly policy: Policy } | { readonly problem: string }

/** Creates the policy, or returns why it cannot be created: a newer edge may name an unknown one. */
export function createPolicy(config: PolicyConfig): PolicyOrProblem {
  const kind = policyKind(config.name)
  if (kind === null) return { problem: `unknown policy "${config.name}"; known: ${[...byName.keys()].join(', ')}` }
  try {
    return { policy: kind.create(config.options) }
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) }
  }
}
