/** Conversion of LiteLLM's proxy configuration (`config.yaml`). */
import { engineTypeNamed } from '../../../src/engines/engine-guides.ts'
import { ollama } from '../../../src/engines/ollama.ts'
import { Draft, baseUrlOf, compact, type Source } from './draft.ts'
import { idOf, uniqueIds } from './engine-ids.ts'
import { documentsOf, items, text, tree, type Tree } from './documents.ts'

/** Further prefixes of `litellm_params.model` whose servers have OpenAI's API. */
const OPENAI_API = ['text-completion-openai', 'lm_studio']
/** Where LiteLLM expects a server without an address. */
const OLLAMA_URL = 'http://localhost:11434'

export function fromLitellm({ words, text: content }: Source): Draft | null {
  const [document] = words === null ? documentsOf(content) : []
  if (document === undefined || !Array.isArray(document['model_list'])) return null
  const draft = new Draft()
  general(draft, tree(document['general_settings']))
  draft.listen('0.0.0.0', '4000', { host: '0.0.0.0', port: 4000 })
  const shared = routing(draft, tree(document['router_settings']), tree(document['litellm_settings']))
  deployments(draft, document, shared)
  const known = new Set(['model_list', 'router_settings', 'litellm_settings', 'general_settings'])
  for (const key of Object.keys(document)) {
    if (known.has(key)) continue
    const why = key === 'environment_variables' ? 'set them in the environment of the gateway.' : 'not supported.'
    draft.dropped(key, why)
  }
  return draft
}

/** A deployment at OpenAI itself: a last resort of the pool that has the same name. */
interface Provider {
  readonly group: string
  readonly entry: Tree
  readonly params: Tree
  /** `litellm_params.model`. */
  readonly target: string
}

interface Pool {
  readonly names: Set<string>
  readonly engines: Tree[]
}

function deployments(draft: Draft, document: Tree, shared: Tree): void {
  const pools = new Map<string, Pool>()
  const unique = uniqueIds()
  const groups: Groups = new Map()
  const providers: Provider[] = []
  const addresses = new Map<string, { readonly model: string; readonly id: string }>()
  for (const entry of items(document['model_list']).map(tree)) {
    const group = text(entry['model_name']) ?? ''
    const params = tree(entry['litellm_params'])
    const target = text(params['model']) ?? ''
    if (isProvider(target, params)) {
      providers.push({ group, entry, params, target })
      continue
    }
    const url = addressOf(draft, target, params)
    if (url === null) continue
    const model = target.slice(target.indexOf('/') + 1)
    const taken = addresses.get(url)
    if (taken !== undefined) {
      draft.dropped(
        `${group} (${target})`,
        taken.model === model
          ? `${url} is engine ${taken.id}. An address is one engine.`
          : `${url} serves ${taken.model}. An engine has one base model.`,
      )
      if (taken.model === model) share(groups, { group, model, weight: 0 })
      continue
    }
    const pool = pools.get(model) ?? { names: new Set<string>(), engines: [] }
    pools.set(model, pool)
    const id = unique(group)
    addresses.set(url, { model, id })
    pool.engines.push(engineOf(draft, { entry, params, url, id }))
    share(groups, { group, model, weight: Number(params['weight'] ?? 1) })
  }
  const router = tree(document['router_settings'])
  addProviders(draft, providers, { unique, pools, groups, fallbacks: router['fallbacks'] })
  for (const [alias, group] of Object.entries(tree(router['model_group_alias']))) {
    const models = groups.get(text(group) ?? text(tree(group)['model']) ?? '')
    if (models !== undefined) groups.set(alias, models)
  }
  addNames(draft, groups, pools)
  for (const [model, { names, engines }] of pools)
    draft.pools.push(compact({ model, aliases: [...names].filter((name) => name !== model), ...shared, engines }))
  if (pools.size === 0) draft.todo('model_list', 'no deployment is a server with OpenAI’s API. Add engines.')
}

/** Models of each group, with the sum of the weights of their deployments. */
type Groups = Map<string, Map<string, number>>

interface Share {
  readonly group: string
  readonly model: string
  readonly weight: number
}

function share(groups: Groups, { group, model, weight }: Share): void {
  const models = groups.get(group) ?? new Map<string, number>()
  models.set(model, (models.get(model) ?? 0) + weight)
  groups.set(group, models)
}

/** Makes the group of one model an alias of its pool, and a group of several models a weighted model. */
function addNames(draft: Draft, groups: Groups, pools: ReadonlyMap<string, Pool>): void {
  const weighted: Tree[] = []
  for (const [group, models] of groups) {
    const [first, ...others] = models.keys()
    const isShared = others.length > 0 && !pools.has(group)
    if (!isShared) {
      pools.get(first!)!.names.add(group)
      for (const model of others) draft.dropped(`${group} as a name of ${model}`, `a name has one model: ${first}.`)
      continue
    }
    weighted.push({ name: group, targets: Array.from(models, ([model, weight]) => ({ model, weight })) })
    draft.differs(
      `${group} (${[...models.keys()].join(', ')})`,
      'requests are shared by the weights of the deployments, 1 without one, and a session stays with its model.',
    )
  }
  if (weighted.length > 0) draft.document['weighted_models'] = weighted
}

function isProvider(target: string, params: Tree): boolean {
  const isOpenai = target.startsWith('openai/') || !target.includes('/')
  return isOpenai && (params['api_base'] ?? params['base_url']) === undefined && !target.endsWith('*')
}

function providerOf(draft: Draft, { entry, params, target }: Provider, id: string): Tree {
  const written = text(params['api_key'])
  const key = secretOf(draft, `api_key of ${id}`, written, 'OPENAI_API_KEY') ?? { env: 'OPENAI_API_KEY' }
  report(draft, { entry, params, id })
  return { id, url: 'https://api.openai.com', kind: 'external', provider_model: target.replace(/^openai\//, ''), key }
}

interface ProviderParts {
  readonly unique: (name: string) => string
  readonly pools: ReadonlyMap<string, Pool>
  readonly groups: Groups
  readonly fallbacks: unknown
}

/** Adds a provider to the pool of its own group, and to each group that falls back to it. */
function addProviders(
  draft: Draft,
  providers: readonly Provider[],
  { unique, pools, groups, fallbacks }: ProviderParts,
): void {
  const pairs = items(fallbacks).flatMap((one) =>
    Object.entries(tree(one)).flatMap(([from, to]) => items(to).map((group) => [from, text(group)] as const)),
  )
  for (const provider of providers) {
    const { group, target } = provider
    const users = [group, ...pairs.flatMap(([from, to]) => (to === group ? [from] : []))]
    const [pool] = users.flatMap((user) => [...(groups.get(user)?.keys() ?? [])].map((model) => pools.get(model)!))
    if (pool === undefined) draft.dropped(`model ${target}`, 'a provider is a last resort: its group has no engine.')
    else {
      pool.engines.push(providerOf(draft, provider, unique(group)))
      draft.differs(`${group} (${target})`, 'is requested only if no engine can serve.')
    }
  }
}

/** Base URL of a deployment, or null with a note if it is no server with OpenAI's API. */
function addressOf(draft: Draft, target: string, params: Tree): string | null {
  const [provider] = target.includes('/') ? target.split('/') : ['openai']
  const type = engineTypeNamed(provider!)
  const base = text(params['api_base']) ?? text(params['base_url']) ?? (type === ollama ? OLLAMA_URL : null)
  const item = `model ${target}`
  if (target.endsWith('*')) draft.dropped(item, 'wildcards are not supported. Name each model.')
  else if (type === null && !OPENAI_API.includes(provider!))
    draft.dropped(item, `not supported: requests are not translated to the API of ${provider}.`)
  else if (base === null)
    draft.dropped(item, 'not supported: a provider’s cloud is not an engine. It has no health check and no metrics.')
  else if (base.startsWith('os.environ/')) {
    draft.todo(item, `replace the URL by the value of ${base.slice('os.environ/'.length)}.`)
    return `http://${idOf(base.slice('os.environ/'.length)).toLowerCase().replaceAll('_', '-')}:8000`
  } else return baseUrlOf(base)
  return null
}

interface Deployment {
  readonly entry: Tree
  readonly params: Tree
  readonly url: string
  readonly id: string
}

const LIMIT = 'limits are per client key (keys[].limits) or by load (max_in_flight).'
const TIMEOUT = 'timeouts are per pool: limits.first_byte_ms, limits.idle_ms and limits.answer_ms.'
const PARAMS: Readonly<Record<string, string>> = {
  rpm: LIMIT,
  tpm: LIMIT,
  timeout: TIMEOUT,
  stream_timeout: TIMEOUT,
  max_retries: 'retries are limited by a share of traffic (retry.share), before the first byte.',
  tags: 'not supported: labels of an engine are for display.',
  api_version: 'not needed. Paths are those of OpenAI’s API.',
}
const READ_PARAMS = new Set(['model', 'api_base', 'base_url', 'api_key', 'weight', 'max_parallel_requests'])

function engineOf(draft: Draft, { entry, params, url, id }: Deployment): Tree {
  const written = text(params['api_key'])
  const key = secretOf(draft, `api_key of ${id}`, written, `${id.toUpperCase().replaceAll(/[^A-Z0-9]+/g, '_')}_KEY`)
  report(draft, { entry, params, id })
  const inFlight = params['max_parallel_requests']
  return compact({ id, url, weight: params['weight'], max_in_flight: inFlight, key })
}

/** Reports what has no counterpart. */
function report(draft: Draft, { entry, params, id }: Omit<Deployment, 'url'>): void {
  const { model_name: _name, litellm_params: _params, model_info: info, ...outside } = entry
  for (const name of new Set([...Object.keys(params), ...Object.keys(outside)]))
    if (!READ_PARAMS.has(name))
      draft.dropped(`${name} of ${id}`, PARAMS[name] ?? 'not supported: requests are not changed.')
  if (info !== undefined)
    draft.dropped(`model_info of ${id}`, 'not needed. Models and health are read from the engine.')
}

/** A secret as the name of a variable. Literal secrets are not copied into the document. */
function secretOf(draft: Draft, item: string, written: string | null, variable: string): Tree | null {
  if (written === null || written === '' || /^(none|empty)$/i.test(written)) return null
  if (written.startsWith('os.environ/')) return { env: written.slice('os.environ/'.length) }
  draft.todo(item, `set ${variable} to this secret; the document contains no secrets.`)
  return { env: variable }
}

const POLICIES: Readonly<Record<string, string>> = {
  'simple-shuffle': 'random',
  'least-busy': 'least_loaded',
  'latency-based-routing': 'predicted',
  'usage-based-routing': 'least_loaded',
  'usage-based-routing-v2': 'least_loaded',
}

function routing(draft: Draft, router: Tree, settings: Tree): Tree {
  const strategy = text(router['routing_strategy']) ?? 'simple-shuffle'
  const policy = POLICIES[strategy]
  if (policy === undefined) draft.dropped(`routing_strategy ${strategy}`, 'not supported. The policy is predicted.')
  if (strategy.startsWith('usage-based')) draft.differs(strategy, 'least_loaded compares running requests, not usage.')
  const seconds = Number(router['timeout'] ?? settings['request_timeout'] ?? NaN)
  const limits = Number.isNaN(seconds) ? null : { first_byte_ms: seconds * 1000, answer_ms: seconds * 1000 }
  const open = router['cooldown_time'] ?? settings['cooldown_time']
  const circuit = compact({
    failures: router['allowed_fails'] ?? settings['allowed_fails'],
    open_ms: open === undefined ? null : Number(open) * 1000,
  })
  if (router['num_retries'] !== undefined || settings['num_retries'] !== undefined)
    draft.differs('num_retries', 'retries are limited by a share of traffic (retry.share), before the first byte.')
  if (router['redis_host'] !== undefined || router['redis_url'] !== undefined)
    draft.todo('router_settings.redis_host', 'gateways share their bookings with replicas.url: docs/replicas.md.')
  unsupported(draft, { router_settings: router, litellm_settings: settings })
  return compact({ policy: policy ?? 'predicted', limits, circuit: Object.keys(circuit).length > 0 ? circuit : null })
}

const READ = new Set(
  (
    'routing_strategy timeout cooldown_time allowed_fails num_retries redis_host redis_port redis_password redis_url ' +
    'model_group_alias request_timeout'
  ).split(' '),
)

const FALLBACK = 'a provider becomes an external engine of the pool. Other models are not substituted.'

const WHY: Readonly<Record<string, string>> = {
  fallbacks: FALLBACK,
  default_fallbacks: FALLBACK,
  context_window_fallbacks: FALLBACK,
  content_policy_fallbacks: FALLBACK,
  cache: 'responses are not cached. The engines’ prefix caches are used.',
  cache_params: 'responses are not cached. The engines’ prefix caches are used.',
  drop_params: 'not needed. Requests are forwarded byte for byte.',
  set_verbose: 'log.level: debug.',
  json_logs: 'log.format: json.',
  telemetry: 'not needed. The gateway sends no usage data.',
  enable_pre_call_checks: 'not needed. Engines without room are left out.',
}

function unsupported(draft: Draft, sections: Readonly<Record<string, Tree>>): void {
  for (const [section, settings] of Object.entries(sections))
    for (const name of Object.keys(settings)) {
      if (READ.has(name)) continue
      const isCallback = name.endsWith('callback') || name.endsWith('callbacks')
      const why = isCallback ? 'use metrics and traces: docs/metrics.md, docs/traces.md.' : 'not supported.'
      draft.dropped(`${section}.${name}`, WHY[name] ?? why)
    }
}

function general(draft: Draft, settings: Tree): void {
  const master = secretOf(draft, 'general_settings.master_key', text(settings['master_key']), 'FIRSTLIGHT_KEY')
  if (master !== null) draft.document['keys'] = [{ name: 'clients', secret: master }]
  for (const name of Object.keys(settings)) {
    if (name === 'master_key') continue
    const isDatabase = name.startsWith('database') || name === 'store_model_in_db'
    const why = isDatabase ? 'there is no database: clients and their keys are listed under keys.' : 'not supported.'
    draft.dropped(`general_settings.${name}`, why)
  }
}
