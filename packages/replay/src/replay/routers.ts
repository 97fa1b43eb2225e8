import { toCamelKey, toSnakeKey } from '../../../../src/config/fields.ts'
import type { PolicyConfig } from '../../../../src/core/contract/pool-config.ts'
import { type PolicyKind, violatedRule } from '../../../../src/core/routing/policy-options.ts'
import { policyKind, policyKinds } from '../../../../src/core/routing/policies/policies.ts'
import { cacheAware } from './baselines/cache-aware.ts'
import { hashPrefix } from './baselines/hash-prefix.ts'
import { llmD } from './baselines/llm-d.ts'
import { kvaware, ttft670 } from './baselines/production-stack.ts'
import { GatewayRouter } from './gateway-router.ts'
import { fewestRequests, oracleKinds } from './oracles.ts'
import type { RouterKind } from './router.ts'

/** The gateway with one policy. */
export function gatewayKind(
  name: string,
  policy: PolicyConfig,
  about: { readonly doc: string; readonly source: string; readonly lookup?: boolean },
): RouterKind {
  const { doc, source, lookup = false } = about
  return { name, doc, source, create: (context) => new GatewayRouter({ name, policy, lookup }, context) }
}

/** The shipped policies with their defaults. */
export const shippedKinds: readonly RouterKind[] = policyKinds.map(({ name, doc, source }) =>
  gatewayKind(name, { name, options: {} }, { doc: String(doc), source: String(source), lookup: name === 'kv_aware' }),
)

/** Rules of other routers with their defaults. */
export const baselineKinds: readonly RouterKind[] = [
  hashPrefix,
  cacheAware,
  llmD,
  gatewayKind(
    'dynamo_today',
    { name: 'active_blocks', options: { rule: 'today' } },
    {
      doc: 'Linear cost of queued and new prefill blocks and of blocks held, with current defaults.',
      source: 'ai-dynamo/dynamo, 2026: credit 1, scale 1, temperature 0',
    },
  ),
  gatewayKind(
    'dynamo_1731',
    { name: 'active_blocks', options: { rule: 'pull_request', temperature: 0.5 } },
    {
      doc: 'Uncached plus potential active blocks, softmax with a temperature.',
      source: 'ai-dynamo/dynamo#1731: overlap weight 1, temperature 0.5',
    },
  ),
  kvaware,
  ttft670,
]

/** All routers of `--policies all`. */
export const routerKinds: readonly RouterKind[] = [...shippedKinds, ...baselineKinds, ...oracleKinds]

const NAMED = new Map([...routerKinds, fewestRequests].map((kind) => [kind.name, kind]))

/**
 * Finds a router by name, or a shipped policy with options: `predicted:work_weight=2`. Throws a RangeError that lists
 * all names.
 */
export function routerNamed(word: string): RouterKind {
  const [name = '', ...given] = word.split(':')
  const known = NAMED.get(name)
  if (known === undefined) throw new RangeError(`unknown policy "${name}"; policies: ${[...NAMED.keys()].join(', ')}`)
  if (given.length === 0) return known
  const shipped = policyKind(name)
  if (shipped === null)
    throw new RangeError(
      `"${name}" has no options; policies with options: ${policyKinds.map((kind) => kind.name).join(', ')}`,
    )
  return gatewayKind(word, { name, options: Object.fromEntries(given.map((text) => optionOf(shipped, text))) }, known)
}

/** Parses `work_weight=2`, with the names of the configuration. */
function optionOf({ name: policy, options }: PolicyKind, text: string): [string, number | string | boolean] {
  const [name = '', given = ''] = text.split('=')
  const option = toCamelKey(name)
  const spec = Object.hasOwn(options, option) ? options[option] : undefined
  const value = valueOf(given)
  const wrong = spec === undefined ? null : violatedRule(spec, value)
  if (spec === undefined)
    throw new RangeError(
      `${policy} has no option "${name}"; it has ${Object.keys(options).map(toSnakeKey).join(', ') || 'none'}`,
    )
  if (wrong !== null) throw new RangeError(`${name} of ${policy} must be ${wrong}, got "${given}"`)
  return [option, value]
}

function valueOf(text: string): number | string | boolean {
  if (text === 'true' || text === 'false') return text === 'true'
  return text !== '' && Number.isFinite(Number(text)) ? Number(text) : text
}
