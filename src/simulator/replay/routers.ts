import type { PolicyConfig } from '../../core/contract/contract.ts'
import { camel, snake } from '../../config/fields.ts'
import { type PolicyKind, problemOf } from '../../core/routing/options.ts'
import { policyKind, policyKinds } from '../../core/routing/policies/index.ts'
import { llmD } from './baselines/llm-d.ts'
import { kvaware, ttft670, cacheAware, hashPrefix } from './baselines/production-stack.ts'
import { GatewayRouter } from './gateway-router.ts'
import type { RouterKind } from './router.ts'
import type { ReplayEngine } from './serial-engine.ts'
import type { Job } from './trace.ts'

/* Routers with the exact state of the engines: references that cannot be deployed. */

/** Costs in ms closer than this are equal. */
const TIE_MS = 0.001

function greedy(
  name: string,
  doc: string,
  costMs: (engine: ReplayEngine, job: Job, now: number) => number,
): RouterKind {
  return {
    name,
    doc,
    source: 'an oracle, not a policy',
    create: ({ engines }) => ({
      name,
      route(job, now) {
        let best = 0
        let least = Infinity
        engines.forEach((engine, at) => {
          const cost = costMs(engine, job, now)
          // Among equals, the engine that has computed the fewest tokens: its cache has the most room.
          const equal = Math.abs(cost - least) <= TIE_MS && engine.computedTokens < engines[best]!.computedTokens
          if (cost < least - TIE_MS || equal) {
            least = Math.min(least, cost)
            best = at
          }
        })
        return { engine: best, predictedTtftMs: least }
      },
      firstToken() {},
      ended() {},
    }),
  }
}

/** Greedy with exact state: every cache, every queue and the true cost model, but no lookahead. */
export const exact = greedy(
  'exact',
  'Least time to first token, from the engines’ true caches and queues.',
  (engine, job, now) => engine.exactTtftMs(job, now),
)

/** Greedy with exact queues and no caches: the value of queue information alone. */
export const leastWork = greedy(
  'least_work',
  'Shortest queue by true remaining work; caches ignored.',
  (engine, job, now) => engine.exactColdTtftMs(job, now),
)

/** Fewest requests in flight, exact and cheap enough for thousands of runs. */
export const fewestRequests = greedy(
  'fewest_requests',
  'Fewest requests running and waiting, as the engines count them.',
  (engine) => {
    const { running, waiting } = engine.gauges()
    return running + waiting
  },
)

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
      doc: 'Linear cost of queued and new prefill blocks and of blocks held, by today’s defaults.',
      source: 'ai-dynamo/dynamo, 2026: credit 1, scale 1, temperature 0',
    },
  ),
  gatewayKind(
    'dynamo_1731',
    { name: 'active_blocks', options: { rule: 'pull_request', temperature: 0.5 } },
    {
      doc: 'Uncached plus potential active blocks, softmax with the temperature of its day.',
      source: 'ai-dynamo/dynamo#1731: overlap weight 1, temperature 0.5',
    },
  ),
  kvaware,
  ttft670,
]

/** Routers with exact engine state, which cannot be deployed. */
export const markKinds: readonly RouterKind[] = [leastWork, exact]

/** All routers of `--policies all`. */
export const routerKinds: readonly RouterKind[] = [...shippedKinds, ...baselineKinds, ...markKinds]

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
      `"${name}" takes no options; those that do: ${policyKinds.map((kind) => kind.name).join(', ')}`,
    )
  return gatewayKind(word, { name, options: Object.fromEntries(given.map((text) => optionOf(shipped, text))) }, known)
}

/** Parses `work_weight=2`, with the names of the configuration. */
function optionOf({ name: policy, options }: PolicyKind, text: string): [string, number | string | boolean] {
  const [name = '', given = ''] = text.split('=')
  const option = camel(name)
  const spec = Object.hasOwn(options, option) ? options[option] : undefined
  const value = valueOf(given)
  const wrong = spec === undefined ? null : problemOf(spec, value)
  if (spec === undefined)
    throw new RangeError(
      `${policy} has no option "${name}"; it has ${Object.keys(options).map(snake).join(', ') || 'none'}`,
    )
  if (wrong !== null) throw new RangeError(`${name} of ${policy} must be ${wrong}, got "${given}"`)
  return [option, value]
}

function valueOf(text: string): number | string | boolean {
  if (text === 'true' || text === 'false') return text === 'true'
  return text !== '' && Number.isFinite(Number(text)) ? Number(text) : text
}
