import type { PolicyConfig } from '../../core/cluster/contract.ts'
import { policyKinds } from '../../core/routing/policies/index.ts'
import { GatewayRouter } from './gateway-router.ts'
import { exact, leastWork } from './marks.ts'
import type { RouterKind } from './router.ts'

/** The gateway itself with a policy of its own. */
export function gatewayKind(name: string, policy: PolicyConfig, about: { readonly doc: string; readonly source: string; readonly lookup?: boolean }): RouterKind {
  const { doc, source, lookup = false } = about
  return { name, doc, source, create: (context) => new GatewayRouter({ name, policy, lookup }, context) }
}

/** The policies that ship, with their defaults. */
export const shippedKinds: readonly RouterKind[] = policyKinds
  .map(({ name, doc, source }) => gatewayKind(name, { name, options: {} }, { doc, source }))

/** Everything `--policies all` stands for. */
export const routerKinds: readonly RouterKind[] = [...shippedKinds, leastWork, exact]
