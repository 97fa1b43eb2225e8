/** Conversion of production-stack's router: flags, dynamic configuration, Helm values or manifest of a Deployment. */
import { Draft, baseUrlOf, compact, type Source } from './draft.ts'
import { uniqueIds } from './engine-ids.ts'
import { Flags } from './flags.ts'
import { type EngineIds, splitOf } from './production-stack-split.ts'
import { argumentsOf, commandsOf } from './shell.ts'
import { containerCommands } from './containers.ts'
import { documentsOf, items, text, tree, type Tree } from './documents.ts'

const PROGRAM = /vllm_router(?:\.app)?$|vllm-router$/

/** Flags without a counterpart, with the reason. */
const DROPPED: Readonly<Record<string, string>> = {
  'root-path': 'strip the prefix in the proxy in front of the gateway.',
  'log-format': 'log.format selects the format; logs are JSON unless they go to a terminal.',
  'static-model-types': 'not needed. Health checks use GET /health and send no requests to models.',
  'static-backend-health-checks': 'not needed. Health checks are always on.',
  'static-backend-health-check-timeout-seconds': 'not needed. A check has 2 s to connect and 5 s to answer.',
  'backend-health-check-timeout-seconds': 'not needed. A check has 2 s to connect and 5 s to answer.',
  'k8s-watcher-timeout-seconds': 'not needed. A watch is renewed every minute.',
  'k8s-service-discovery-type': 'engines are pods. For Services use discover: dns and a headless Service.',
  'request-stats-window': 'not needed. The window of the policy qps is 60 s.',
  callbacks: 'not supported. Requests are forwarded byte for byte; use a proxy in front or behind.',
  'request-rewriter': 'not supported. Requests are forwarded byte for byte.',
  'enable-batch-api': 'not supported.',
  'file-storage-class': 'not supported: /v1/files is not served.',
  'file-storage-path': 'not supported: /v1/files is not served.',
  'batch-processor': 'not supported.',
  'feature-gates': 'not supported. A semantic cache can return the answer to another question.',
  'semantic-cache-model': 'not supported.',
  'semantic-cache-dir': 'not supported.',
  'semantic-cache-threshold': 'not supported.',
  'external-providers-config': 'give this file to firstlight convert as well, and merge the pools.',
  'sentry-dsn': 'not supported. Errors are in the log and in metrics.',
  'sentry-traces-sample-rate': 'not supported.',
  'sentry-profile-session-sample-rate': 'not supported.',
  'lmcache-controller-reply-port': 'not needed. The controller is called over HTTP.',
  'lmcache-controller-heartbeat-port': 'stays with the controller.',
  'lmcache-health-check-interval': 'stays with the controller.',
  'lmcache-worker-timeout': 'stays with the controller.',
  'dynamic-config-yaml': 'give that file to firstlight convert; firstlight serve --watch reloads.',
  'dynamic-config-json': 'give that file to firstlight convert; firstlight serve --watch reloads.',
  'otel-secure': 'write https:// in traces.endpoint.',
  'prefix-min-match-length':
    'a length in characters. The option min_match of the policy prefix is a share of the prompt.',
}

export function fromProductionStack({ words, text: content, model }: Source): Draft | null {
  const draft = new Draft()
  const [document] = words === null ? documentsOf(content) : []
  if (document !== undefined && ('routerSpec' in document || 'servingEngineSpec' in document))
    return fromValues(draft, document)
  if (document !== undefined && Array.isArray(document['external_providers'])) return fromProviders(draft, document)
  const given = words === null ? wordsIn(content) : words
  if (given === null) return null
  const flags = new Flags(given)
  common(draft, flags)
  if (flags.one('service-discovery') === 'k8s') fromPods(draft, flags, model)
  else fromBackends(draft, flags, model)
  return reported(draft, flags)
}

function wordsIn(content: string): readonly string[] | null {
  const documents = documentsOf(content)
  const [first] = documents
  if (first !== undefined && ('service_discovery' in first || 'routing_logic' in first || 'static_models' in first))
    return wordsOfDynamic(first)
  const commands = first === undefined ? commandsOf(content) : containerCommands(documents)
  return argumentsOf(commands, PROGRAM)[0] ?? null
}

/** The keys of a dynamic configuration are the flags with underscores; models may be nested. */
function wordsOfDynamic(document: Tree): string[] {
  const nested = tree(document['static_models'])
  const rows = Object.entries(nested).flatMap(([name, entry]) =>
    items(tree(entry)['static_backends']).map((url) => [name, text(url) ?? ''] as const),
  )
  const aliases = Object.entries(tree(document['static_aliases'])).map(([alias, name]) => `${alias}:${text(name)}`)
  const own = Object.entries(document).flatMap(([key, value]) => {
    const flat = Array.isArray(value) ? value.map(text).join(',') : text(value)
    return flat === null ? [] : [`--${key}=${flat}`]
  })
  if (rows.length > 0) {
    own.push(`--static-models=${rows.map(([name]) => name).join(',')}`)
    own.push(`--static-backends=${rows.map(([, url]) => url).join(',')}`)
  }
  return aliases.length > 0 ? [...own, `--static-aliases=${aliases.join(',')}`] : own
}

/** Settings outside of pools. */
function common(draft: Draft, flags: Flags): void {
  draft.listen(flags.one('host'), flags.one('port'), { host: '0.0.0.0', port: 8001 })
  const level = flags.one('log-level')
  const seconds = flags.has('log-stats') ? Number(flags.one('log-stats-interval') ?? 10) : null
  flags.has('log-stats-interval')
  const log = compact({ level: level === 'warning' ? 'warn' : level === 'critical' ? 'error' : level })
  if (seconds !== null) log['stats_interval_s'] = seconds
  if (Object.keys(log).length > 0) draft.document['log'] = log
  const endpoint = flags.one('otel-endpoint')
  if (endpoint !== null) {
    const url = /^https?:/.test(endpoint) ? endpoint : `http://${endpoint.replace(/:4317$/, ':4318')}`
    draft.document['traces'] = compact({ endpoint: url, service: flags.one('otel-service-name') })
    draft.differs('--otel-endpoint', 'traces use OTLP over HTTP (port 4318), not gRPC (4317).')
  }
}

function reported(draft: Draft, flags: Flags): Draft {
  for (const [name, value] of flags.unread()) {
    const why = DROPPED[name] ?? 'unknown to firstlight convert. See docs/coming-from.md.'
    draft.dropped(`--${name}${value === '' ? '' : ` ${value}`}`, why)
  }
  return draft
}

/** Policy, sessions, retries and probes of every pool. */
function routing(draft: Draft, flags: Flags, decoders: EngineIds = new Map()): Tree {
  const pool: Tree = {}
  const key = flags.one('session-key')
  if (key !== null) pool['session'] = { header: key.toLowerCase() }
  const interval = flags.one('engine-stats-interval') ?? flags.one('static-backend-health-check-interval')
  flags.has('static-backend-health-check-interval')
  if (interval !== null) pool['stats_interval_ms'] = Number(interval) * 1000
  if (flags.has('max-instance-failover-reroute-attempts'))
    draft.differs(
      '--max-instance-failover-reroute-attempts',
      'retries are limited by a share of traffic (retry.share, retry.min_per_s), which prevents retry storms.',
    )
  const controller = flags.one('lmcache-controller-port')
  applyLogic(draft, flags, pool, decoders)
  if (controller !== null && pool['lmcache'] === undefined)
    draft.dropped('--lmcache-controller-port', 'only used by the routing logics kvaware and ttft.')
  const tokenizer = flags.one('tokenizer')
  if (tokenizer !== null)
    draft.todo(
      `--tokenizer ${tokenizer}`,
      'compile its tokenizer.json with firstlight vocab compile, and set tokenizer of the pool to the file. Until ' +
        'then tokens are estimated from bytes, with a ratio that is learned.',
    )
  return pool
}

function applyLogic(draft: Draft, flags: Flags, pool: Tree, decoders: EngineIds): void {
  const logic = flags.one('routing-logic')
  if (logic === 'roundrobin' || logic === null) pool['policy'] = 'round_robin'
  else if (logic === 'session') pool['policy'] = 'session'
  else if (logic === 'prefixaware') {
    pool['policy'] = 'prefix'
    draft.differs('prefixaware', 'prefixes are compared by blocks of tokens, and an overloaded engine is avoided.')
  } else if (logic === 'kvaware') {
    pool['policy'] = { name: 'kv_aware', threshold: Number(flags.one('kv-aware-threshold') ?? 2000) }
    setController(draft, flags, pool)
  } else if (logic === 'ttft') {
    // The flag has the second name, and its description in #670 the first.
    const isShared = [flags.has('enable-share-cache'), flags.has('enable-shared-cache')].includes(true)
    pool['policy'] = isShared ? { name: 'ttft', shared_cache: true } : 'ttft'
    if (flags.has('lmcache-controller-port')) setController(draft, flags, pool)
  } else if (logic === 'disaggregated_prefill_orchestrated') {
    // The source answers 503 without a prefill engine.
    pool['split'] = { mode: 'always', connector: 'nixl', fallback: 'fail' }
    draft.differs(
      'disaggregated_prefill_orchestrated',
      'fallback: fail answers 503 without a prefill engine, as the source does; decode_only, the default, serves the ' +
        'request on a decode engine.',
    )
  } else if (logic?.startsWith('disaggregated_prefill') === true) {
    pool['split'] = splitOf(draft, flags, pool, decoders)
    if (flags.one('disagg-connector-type') === null)
      draft.differs(
        'disaggregated_prefill',
        'this mode sends no transfer parameters. The engines need NixlConnector; for LMCache see split.lmcache in ' +
          'docs/disaggregation.md.',
      )
  } else draft.dropped(`--routing-logic ${logic}`, 'unknown to firstlight convert. The default policy is predicted.')
  flags.has('kv-aware-threshold')
}

function setController(draft: Draft, flags: Flags, pool: Tree): void {
  const port = flags.one('lmcache-controller-port') ?? '9000'
  pool['lmcache'] = { controller: 'http://lmcache-controller:9000' }
  draft.todo(
    'lmcache.controller',
    `the router ran LMCache's controller itself (port ${port}). Run lmcache_controller separately and write the ` +
      'URL of its HTTP server.',
  )
}

function fromBackends(draft: Draft, flags: Flags, given: string | null): void {
  const urls = flags.list('static-backends')
  const models = flags.list('static-models')
  const labels = flags.list('static-model-labels')
  const prefill = flags.list('prefill-model-labels')
  const decode = flags.list('decode-model-labels')
  flags.has('service-discovery')
  const instances = flags.list('lmcache-instances')
  const unique = uniqueIds()
  const decoders = new Map<string, string>()
  const byModel = new Map<string, Tree[]>()
  for (const [index, url] of urls.entries()) {
    const model = given ?? draft.modelOr(models[index] ?? null, '--static-models')
    const label = labels[index] ?? ''
    const role = prefill.includes(label) ? 'prefill' : decode.includes(label) ? 'decode' : null
    const engines = byModel.get(model) ?? []
    const id = unique(role ?? 'engine')
    engines.push(compact({ id, url: baseUrlOf(url), role, lmcache_instance: instances[index] ?? null }))
    if (role === 'decode') decoders.set(baseUrlOf(url), id)
    byModel.set(model, engines)
  }
  if (urls.length === 0) draft.todo('--static-backends', 'the source names no engines. Add them under engines.')
  const shared = routing(draft, flags, decoders)
  const aliases = flags.list('static-aliases').map((pair) => pair.split(':'))
  for (const [model, engines] of byModel) {
    const own = aliases.flatMap(([alias, name]) => (name === model ? [alias!] : []))
    draft.pools.push(compact({ model, aliases: own, ...shared, engines }))
  }
}

function fromPods(draft: Draft, flags: Flags, model: string | null): void {
  const shared = routing(draft, flags)
  const port = flags.one('k8s-port') ?? '8000'
  const labelled = (name: string) => flags.list(name).map((label) => `model=${label}`)
  const kubernetes = compact({
    namespace: flags.one('k8s-namespace') ?? 'default',
    selector: flags.one('k8s-label-selector') ?? '',
    prefill_labels: labelled('prefill-model-labels'),
    decode_labels: labelled('decode-model-labels'),
  })
  if (kubernetes['selector'] === '') {
    kubernetes['selector'] = 'app=vllm'
    draft.todo('--k8s-label-selector', 'the source selects every pod of the namespace. Name the labels of the engines.')
  }
  draft.differs('--service-discovery k8s', 'each model is a pool of its own. The gateway needs list and watch on pods.')
  const engine = { id: 'vllm', url: `http://pods:${port}`, discover: 'kubernetes', kubernetes }
  draft.pools.push({ model: draft.modelOr(model, '--service-discovery k8s'), ...shared, engines: [engine] })
}

/** Values of the Helm chart: the router's flags as the chart's template writes them, and a pool per model. */
function fromValues(draft: Draft, values: Tree): Draft {
  const router = tree(values['routerSpec'])
  const serving = tree(values['servingEngineSpec'])
  const flags = new Flags(wordsOfValues(router))
  common(draft, flags)
  const labels = tree(serving['labels'] ?? { environment: 'test', release: 'test' })
  const selector = Object.entries(labels).map(([name, value]) => `${name}=${text(value)}`)
  const roleOf = (name: string) =>
    (['prefill', 'decode'] as const).find((role) => flags.list(`${role}-model-labels`).includes(name))
  const shared = routing(draft, flags)
  const key = serving['vllmApiKey'] === undefined ? undefined : { env: 'VLLM_API_KEY' }
  if (router['serviceDiscovery'] === 'static') fromBackends(draft, flags, null)
  const pools = new Map<string, Tree[]>()
  for (const spec of items(serving['modelSpec']).map(tree)) {
    const name = text(spec['name']) ?? 'vllm'
    const model = servedName(spec) ?? draft.modelOr(null, `modelSpec ${name}`)
    const url = `http://pods:${text(serving['containerPort']) ?? '8000'}`
    const kubernetes = { selector: [...selector, `model=${name}`].join(',') }
    const engine = compact({ id: idOfSpec(name), url, discover: 'kubernetes', role: roleOf(name), key, kubernetes })
    pools.set(model, [...(pools.get(model) ?? []), engine])
  }
  for (const [model, engines] of pools) draft.pools.push({ model, ...shared, engines })
  draft.differs(
    'servingEngineSpec',
    'stays with the chart of production-stack, which keeps running the engines; set routerSpec.enableRouter: false.',
  )
  const other = Object.keys(router).filter((name) => !READ_VALUES.has(name))
  if (other.length > 0) draft.dropped(`routerSpec: ${other.join(', ')}`, 'see the values of deploy/helm/firstlight.')
  return reported(draft, flags)
}

const idOfSpec = (name: string): string => name.replaceAll(/[^A-Za-z0-9._-]+/g, '-')

/** Values that the chart's template turns into flags. */
const AS_FLAGS: Readonly<Record<string, string>> = {
  routingLogic: 'routing-logic',
  sessionKey: 'session-key',
  prefixMinMatchLength: 'prefix-min-match-length',
  rootPath: 'root-path',
  engineScrapeInterval: 'engine-stats-interval',
  requestStatsWindow: 'request-stats-window',
  containerPort: 'port',
  staticBackends: 'static-backends',
  staticModels: 'static-models',
  lmcacheControllerPort: 'lmcache-controller-port',
  lmcacheControllerReplyPort: 'lmcache-controller-reply-port',
  lmcacheControllerHeartbeatPort: 'lmcache-controller-heartbeat-port',
}
const READ_VALUES = new Set([...Object.keys(AS_FLAGS), 'extraArgs', 'serviceDiscovery', 'otel', 'enablePD'])

function wordsOfValues(router: Tree): string[] {
  const own = Object.entries(AS_FLAGS).flatMap(([value, flag]) => {
    const written = text(router[value])
    return written === null || written === '' ? [] : [`--${flag}=${written}`]
  })
  const { endpoint, serviceName } = tree(router['otel'])
  const traces = text(endpoint) ?? ''
  if (traces !== '') own.push(`--otel-endpoint=${traces}`, `--otel-service-name=${text(serviceName) ?? 'vllm-router'}`)
  return ['--port=8000', ...own, ...items(router['extraArgs']).flatMap((word) => text(word) ?? [])]
}

/** `--served-model-name` of the engine, else its model. */
function servedName(spec: Tree): string | null {
  const extra = new Flags(items(tree(spec['vllmConfig'])['extraArgs']).flatMap((word) => text(word) ?? []))
  return extra.one('served-model-name') ?? text(spec['modelURL'])
}

/** File of `--external-providers-config`. */
function fromProviders(draft: Draft, document: Tree): Draft {
  for (const provider of items(document['external_providers']).map(tree)) {
    const name = text(provider['name']) ?? 'provider'
    const url = baseUrlOf(text(provider['api_base']) ?? '')
    const key = text(provider['api_key_env_var']) ?? 'OPENAI_API_KEY'
    for (const { id } of items(provider['models']).map(tree))
      draft.todo(
        `external_providers ${name}`,
        `add { id: ${name}, kind: external, url: ${url}, provider_model: ${text(id)}, key: { env: ${key} } } to the ` +
          'engines of the pool that it stands in for.',
      )
  }
  return draft
}
