import type { PolicyConfig } from '../../core/cluster/contract.ts'
import { policyKind, policyKinds } from '../../core/routing/policies/index.ts'
import { cacheAware } from './baselines/cache-aware.ts'
import { hashPrefix } from './baselines/hash-prefix.ts'
import { llmD } from './baselines/llm-d.ts'
import { kvaware, ttft670 } from './baselines/production-stack.ts'
import { GatewayRouter } from './gateway-router.ts'
import { exact, fewestRequests, leastWork } from './marks.ts'
import type { RouterKind } from './router.ts'

/** The gateway itself with a policy of its own. */
export function gatewayKind(name: string, policy: PolicyConfig, about: { readonly doc: string; readonly source: string; readonly lookup?: boolean }): RouterKind {
  const { doc, source, lookup = false } = about
  return { name, doc, source, create: (context) => new GatewayRouter({ name, policy, lookup }, context) }
}

/** The policies that ship, with their defaults. */
export const shippedKinds: readonly RouterKind[] = policyKinds
  .map(({ name, doc, source }) => gatewayKind(name, { name, options: {} }, { doc: String(doc), source: String(source), lookup: name === 'kv_aware' }))

/** Other routers' rules as they ship. */
export const baselineKinds: readonly RouterKind[] = [
  hashPrefix,
  cacheAware,
  llmD,
  gatewayKind('dynamo_today', { name: 'active_blocks', options: { rule: 'today' } }, { doc: 'Linear cost of queued and new prefill blocks and of blocks held, by today’s defaults.', source: 'ai-dynamo/dynamo, 2026: credit 1, scale 1, temperature 0' }),
  gatewayKind('dynamo_1731', { name: 'active_blocks', options: { rule: 'pull_request', temperature: 0.5 } }, { doc: 'Uncached plus potential active blocks, softmax with the temperature of its day.', source: 'ai-dynamo/dynamo#1731: overlap weight 1, temperature 0.5' }),
  kvaware,
  ttft670,
]

/** Who knows the engines' true state: nobody could run these. */
export const markKinds: readonly RouterKind[] = [leastWork, exact]

/** Everything `--policies all` stands for. */
export const routerKinds: readonly RouterKind[] = [...shippedKinds, ...baselineKinds, ...markKinds]

const NAMED = new Map([...routerKinds, fewestRequests].map((kind) => [kind.name, kind]))

/**
 * The router a word stands for: a name, or a shipped policy with options of its own, `predicted:workWeight=2`.
 * Throws a RangeError that lists what there is.
 */
export function routerNamed(word: string): RouterKind {
  const [name = '', ...given] = word.split(':')
  const known = NAMED.get(name)
  if (known === undefined) throw new RangeError(`no policy is called "${name}": choose among ${[...NAMED.keys()].join(', ')}`)
  if (given.length === 0) return known
  const shipped = policyKind(name)
  if (shipped === null) throw new RangeError(`"${name}" takes no options; those that do: ${policyKinds.map((kind) => kind.name).join(', ')}`)
  const policy = { name, options: Object.fromEntries(given.map(optionOf)) }
  shipped.create(policy.options)
  return gatewayKind(word, policy, known)
}

function optionOf(text: string): [string, number | string | boolean] {
  const [name = '', value = ''] = text.split('=')
  const camel = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
  if (value === 'true' || value === 'false') return [camel, value === 'true']
  return [camel, value !== '' && Number.isFinite(Number(value)) ? Number(value) : value]
}
