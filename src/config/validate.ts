/** Rules across keys: duplicate names, contradictory lists, missing keys on a public port. */
import { hostOf, urlHost, hostPort } from '../url.ts'
import { renderPath, type Path, didYouMean, type Finding } from './problem.ts'
import { isLoopback, isServerUrl } from './fields.ts'
import type { ClusterConfig, Config, ConfigDocument, EngineConfig, PoolSettings, RegionalGateway } from '../config.ts'
import { LONGEST_PATTERN_ID } from './discover.ts'

/* Rules for an engine with `discover`: a template of several engines may not have keys of one engine only. */

export function checkPattern(found: Finding[], engine: EngineConfig, at: Path, listens: boolean): void {
  const fault = (key: keyof typeof engine | 'lmcache_instance' | 'kv_events', rule: string) =>
    found.push({ path: [...at, key], rule })
  if (engine.discover !== 'kubernetes' && engine.kubernetes !== null)
    return void fault('kubernetes', 'selects pods for `discover: kubernetes`: add this key, or remove `kubernetes`')
  // On Workers nothing else of it is checked.
  if (!listens) return void fault('discover', 'is of Node: Workers reach no engine by its address. Name each engine')
  if (engine.discover === 'kubernetes' && engine.kubernetes === null)
    fault('kubernetes', 'is missing: `discover: kubernetes` needs a selector, such as `{ selector: app=vllm }`')
  const host = hostOf(engine.url)
  if (new URL(engine.url).protocol !== 'http:')
    fault('url', 'must be http: with `discover` engines are reached by their addresses, which no certificate names')
  if (isIP(host)) fault('url', 'is an address already: `discover` needs a name')
  if (engine.id.length > LONGEST_PATTERN_ID)
    fault('id', `must have at most ${LONGEST_PATTERN_ID} characters: \`discover\` puts an address behind it`)
  if (engine.lmcacheInstance !== null)
    fault(
      'lmcache_instance',
      'is of one engine, and `discover` may find several: leave it out, instances are found by host',
    )
  for (const socket of [engine.kvEvents?.endpoint, engine.kvEvents?.replayEndpoint]) {
    if (socket && hostOf(socket) !== host)
      fault(
        'kv_events',
        `must name the host of \`url\`, tcp://${host}:…: with \`discover\` each address publishes its own`,
      )
  }
}

const isIP = (host: string): boolean => host.includes(':') || /^\d+(\.\d+){3}$/.test(host)

/* Addresses that conflict with the gateway's own listener. */

/**
 * Returns `cluster, engine` for each URL at which this process listens, as far as addresses show: its requests would
 * loop. For a cluster behind a gateway, only its name.
 */
export function ownEngines(
  { listen, clusters }: Pick<Config, 'listen' | 'clusters'>,
  here: ReadonlySet<string> = NOWHERE,
): string[] {
  const own = clusters.flatMap(({ id, gateway, pools }) =>
    pools.flatMap(({ engines }) =>
      engines
        .filter(({ url }) => isOwn(listen, url, here))
        .map((engine) => (gateway === null ? `${id}, ${engine.id}` : id)),
    ),
  )
  return [...new Set(own)]
}

const NOWHERE: ReadonlySet<string> = new Set()

function isOwn({ host, port }: Config['listen'], url: string, here: ReadonlySet<string>): boolean {
  const at = new URL(url)
  // The gateway does not serve TLS.
  if (at.protocol !== 'http:' || port !== Number(at.port === '' ? 80 : at.port)) return false
  const engine = urlHost(at)
  if (isEverywhere(host)) return isLoopback(engine) || isEverywhere(engine) || here.has(engine)
  return isSameHost(engine, host)
}

/** Whether reports share the main port. With threads, each listener would get half of the requests of both. */
export function reportsShareThePort({ listen, ttft }: Pick<Config, 'listen' | 'ttft'>): boolean {
  return ttft.enabled && ttft.listen !== null && isSamePort(listen, ttft.listen)
}

function isSamePort(one: Config['listen'], other: Config['listen']): boolean {
  if (one.port === 0 || one.port !== other.port) return false
  return [one.host, other.host].some(isEverywhere) || isSameHost(one.host, other.host)
}

const isEverywhere = (host: string): boolean => host === '0.0.0.0' || host === '::'

const isSameHost = (one: string, other: string): boolean =>
  one === other || ((one === 'localhost' || other === 'localhost') && isLoopback(one) && isLoopback(other))

/** Returns all violations across keys of a valid document. `listens`: this runtime opens `listen` itself. */
export function crossCheck(document: Config, listens: boolean): Finding[] {
  const found: Finding[] = []
  duplicates(
    found,
    document.clusters.map((one, index) => [one.id, ['clusters', index, 'id']]),
  )
  for (const [index, cluster] of document.clusters.entries()) checkCluster(found, cluster, ['clusters', index])
  checkLimits(found, document)
  checkKeys(found, document, listens)
  checkHeaders(found, document.traces.headers, ['traces'])
  for (const { engine, at } of patternsIn(document)) checkPattern(found, engine, at, listens)
  if (!listens && document.record !== null)
    found.push({ path: ['record'], rule: 'needs `firstlight serve` on Node: leave it out' })
  checkReplicas(found, document, listens)
  return found
}

/** Checks that a cluster has either pools or a gateway. */
export function checkForms({ clusters }: ConfigDocument): Finding[] {
  return clusters.flatMap(({ pools, gateway }, index) =>
    (pools === null) === (gateway === null)
      ? [{ path: ['clusters', index], rule: 'must have either `pools` of engines or a `gateway`' }]
      : [],
  )
}

function checkLimits(found: Finding[], { limits }: Config): void {
  const { bodyBytes, bufferedBytes } = limits
  if (bufferedBytes >= bodyBytes) return
  found.push({
    path: ['limits', 'buffered_bytes'],
    rule: `must be at least limits.body_bytes, ${bodyBytes}: a body of that size would always be refused`,
  })
}

function checkReplicas(found: Finding[], { replicas }: Config, listens: boolean): void {
  if (replicas === null) return
  if (!listens) found.push({ path: ['replicas'], rule: 'needs `firstlight serve` on Node: leave it out' })
  else if (!isServerUrl(replicas.url))
    found.push({ path: ['replicas'], rule: 'must have a `url` like redis://10.0.0.1:6379 or rediss://valkey' })
}

type Named = readonly [name: string, path: Path]

function duplicates(found: Finding[], names: readonly Named[]): void {
  const seen = new Map<string, Path>()
  for (const [name, path] of names) {
    const first = seen.get(name)
    if (first === undefined) seen.set(name, path)
    else found.push({ path, rule: `is taken already by ${renderPath(first)}` })
  }
}

function checkKeys(found: Finding[], document: Config, listens: boolean): void {
  const { keys, jwt } = document
  if (keys === null && jwt === null) {
    if (listens && !document.open && !isLoopback(document.listen.host)) {
      found.push({
        path: ['listen'],
        rule: 'can be reached from other machines: configure `keys`, or say `open: true`',
      })
    }
    return
  }
  const names = keys === null ? 'jwt' : 'keys'
  if (document.open) found.push({ path: ['open'], rule: `contradicts \`${names}\`: leave one of them out` })
  duplicates(
    found,
    (keys ?? []).map((key, index) => [key.name, ['keys', index, 'name']]),
  )
  const served = new Set(document.clusters.flatMap((cluster) => cluster.pools.flatMap(namesOf)))
  const granted = (keys ?? []).map(({ models }, index) => ({ models, path: ['keys', index] as Path }))
  if (jwt !== null) granted.push({ models: jwt.models, path: ['jwt'] })
  for (const { models, path } of granted)
    for (const [at, model] of (models ?? []).entries()) {
      if (!served.has(model))
        found.push({ path: [...path, 'models', at], rule: `is served by no pool${didYouMean(model, [...served])}` })
    }
}

/** Every secret opens one thing: a client's key is neither another client's nor the admin's nor the bridge's. */
export function checkSecrets(
  { keys, admin, bridge }: Config,
  hashOf: (secret: string) => string = (secret) => secret,
): Finding[] {
  const found: Finding[] = []
  const owners = new Map<string, string>()
  if (admin !== null) owners.set(hashOf(admin.secret), 'admin')
  if (bridge !== null) owners.set(hashOf(bridge.secret), 'bridge')
  for (const [index, { secret }] of (keys ?? []).entries()) {
    const hash = typeof secret === 'string' ? hashOf(secret) : secret.sha256
    const owner = owners.get(hash)
    // An unresolved secret is '' and was reported already.
    if (owner !== undefined && secret !== '')
      found.push({ path: ['keys', index, 'secret'], rule: `is the secret of ${owner} too` })
    else owners.set(hash, `keys[${index}]`)
  }
  return found
}

function namesOf(pool: PoolSettings): string[] {
  return [pool.model, ...pool.aliases, ...pool.adapters]
}

function checkCluster(found: Finding[], cluster: ClusterConfig, at: Path): void {
  if (cluster.gateway !== null) return checkGateway(found, cluster.gateway, [...at, 'gateway'])
  const names: Named[] = []
  const engineIds: Named[] = []
  const places: Named[] = []
  for (const [index, pool] of cluster.pools.entries()) {
    const path = [...at, 'pools', index]
    names.push(...namedIn(pool, path))
    for (const [entry, engine] of pool.engines.entries()) {
      const enginePath = [...path, 'engines', entry]
      engineIds.push([engine.id, [...enginePath, 'id']])
      // Several templates may select different pods.
      if (engine.discover !== 'kubernetes') places.push([hostPort(engine, engine.binding), [...enginePath, 'url']])
    }
    checkPool(found, pool, path)
  }
  duplicates(found, names)
  duplicates(found, engineIds)
  // Two ids for one server would book its work twice. Headers distinguish data-parallel ranks behind one address.
  duplicates(found, places)
}

function checkGateway(found: Finding[], gateway: RegionalGateway, at: Path): void {
  const models = gateway.models.map((one, index) => [one, [...at, 'models', index]] as const)
  duplicates(
    found,
    models.flatMap(([one, path]) => namedIn(one, path)),
  )
  checkEngine(found, gateway, at)
}

/** Names of a pool with their paths. */
function namedIn({ model, ...lists }: Pick<PoolSettings, 'model' | 'aliases' | 'adapters'>, path: Path): Named[] {
  const others = (['aliases', 'adapters'] as const).flatMap((list) =>
    lists[list].map((name, entry): Named => [name, [...path, list, entry]]),
  )
  return [[model, [...path, 'model']], ...others]
}

function checkPool(found: Finding[], pool: PoolSettings, at: Path): void {
  const roles = new Set(pool.engines.filter(({ kind }) => kind !== 'external').map(({ role }) => role))
  if (!roles.has('any') && !roles.has('decode')) {
    found.push({
      path: [...at, 'engines'],
      rule: 'must have one engine with role any or decode: no other engine can answer a request',
    })
  }
  const own = [pool.model, ...pool.adapters]
  for (const [index, engine] of pool.engines.entries()) {
    for (const [entry, model] of (engine.models ?? []).entries()) {
      if (own.includes(model)) continue
      const hint = pool.aliases.includes(model)
        ? '; aliases are names for clients, name the model itself'
        : didYouMean(model, own)
      found.push({
        path: [...at, 'engines', index, 'models', entry],
        rule: `is neither the pool's model nor one of its adapters${hint}`,
      })
    }
    checkEngine(found, engine, [...at, 'engines', index])
    checkProvider(found, engine, [...at, 'engines', index])
  }
  checkShards(found, pool, [...at, 'shards'])
  checkLmcache(found, pool, at)
  checkSplit(found, pool, [...at, 'split'])
}

function checkShards(found: Finding[], { shards, engines, lmcache }: PoolSettings, path: Path): void {
  if (shards > engines.length)
    found.push({ path, rule: `must be at most ${engines.length}, the number of engines: each object has its own` })
  if (shards > 1 && lmcache?.registry === true)
    found.push({ path, rule: 'must be 1 with `lmcache.registry`: LMCache servers report to one object' })
}

/** Keys that describe a model server of one's own. */
function checkProvider(found: Finding[], engine: EngineConfig, at: Path): void {
  const rule = 'is for engines of your own: leave it out with `kind: external`'
  if (engine.kind !== 'external') {
    if (engine.providerModel !== null)
      found.push({ path: [...at, 'provider_model'], rule: 'needs `kind: external`; engines serve the pool’s model' })
    return
  }
  if (engine.role !== 'any') found.push({ path: [...at, 'role'], rule })
  if (engine.discover !== null) found.push({ path: [...at, 'discover'], rule })
  if (engine.kvEvents !== null) found.push({ path: [...at, 'kv_events'], rule })
  if (engine.lmcacheInstance !== null) found.push({ path: [...at, 'lmcache_instance'], rule })
}

function checkLmcache(found: Finding[], { lmcache, engines }: PoolSettings, at: Path): void {
  if (lmcache === null) return
  const sources = [lmcache.coordinator, lmcache.controller, lmcache.registry || null].filter((one) => one !== null)
  if (sources.length !== 1)
    found.push({
      path: [...at, 'lmcache'],
      rule: 'must have exactly one of coordinator, controller and registry: true',
    })
  checkHeaders(found, lmcache.headers, [...at, 'lmcache'])
  // Instances are identified by host, so engines that share one must name theirs.
  const hosts = engines.map(({ url }) => new URL(url).hostname)
  for (const [index, { lmcacheInstance: instance }] of engines.entries()) {
    const host = hosts[index]!
    if (instance !== null || hosts.indexOf(host) === hosts.lastIndexOf(host)) continue
    found.push({
      path: [...at, 'engines', index, 'lmcache_instance'],
      rule: `is required: another engine has the host ${host} too`,
    })
  }
}

/** Whether it can serve the decode leg. */
export const decodes = ({ role }: EngineConfig): boolean => role === 'decode' || role === 'any'

const mayPrefill = ({ role, kubernetes }: EngineConfig): boolean =>
  role === 'prefill' || (kubernetes?.prefillLabels.length ?? 0) > 0

/** Default split mode: `always` if the pool has prefill engines. */
export const defaultMode = (engines: readonly EngineConfig[]): 'always' | 'never' =>
  engines.some(mayPrefill) ? 'always' : 'never'

/** Checks the receivers of the connector `lmcache`. */
function checkSplit(found: Finding[], pool: PoolSettings, at: Path): void {
  const { split, engines } = pool
  checkReceivers(found, pool, [...at, 'lmcache'])
  const isDisaggregated = engines.some((engine) => mayPrefill(engine) || engine.role === 'decode')
  if (split.connector === 'lmcache' && split.mode !== 'never' && isDisaggregated)
    checkCoverage(found, pool, [...at, 'lmcache'])
}

/** Checks each configured receiver: its ports, its engine, its host. */
function checkReceivers(found: Finding[], { split, engines }: PoolSettings, at: Path): void {
  const { decoder } = split.lmcache
  const decoders = Object.entries(split.lmcache.decoders ?? {})
  const receivers = [
    ...(decoder === null ? [] : [[['decoder'], decoder] as const]),
    ...decoders.map(([id, one]) => [['decoders', id], one] as const),
  ]
  for (const [path, { initPorts: init, allocPorts: alloc }] of receivers) {
    if (init.length !== alloc.length)
      found.push({
        path: [...at, ...path],
        rule: `has ${init.length} init_ports and ${alloc.length} alloc_ports: there is one of each per rank`,
      })
  }
  const decoding = engines.filter(decodes).map(({ id }) => id)
  for (const [id] of decoders) {
    if (!decoding.includes(id))
      found.push({
        path: [...at, 'decoders', id],
        rule: `is no engine of this pool that decodes${didYouMean(id, decoding)}`,
      })
  }
  for (const [id, { host }] of decoders) {
    const pattern = engines.find((engine) => engine.id === id && engine.discover !== null)
    if (pattern !== undefined && host !== hostOf(pattern.url))
      found.push({
        path: [...at, 'decoders', id, 'host'],
        rule:
          `must be the host of the engine's url, ${hostOf(pattern.url)}: with \`discover\` each address is a ` +
          'receiver',
      })
  }
}

/** Every decode engine needs a receiver. Without one it would use another protocol, or get another engine's cache. */
function checkCoverage(found: Finding[], { split, engines }: PoolSettings, at: Path): void {
  const { decoder, decoders } = split.lmcache
  const decoding = engines.filter(decodes).map(({ id }) => id)
  if (decoder === null) {
    const missing = decoding.filter((id) => decoders?.[id] === undefined)
    if (missing.length > 0)
      found.push({ path: at, rule: `names no receiver for ${missing.join(', ')}: add it to \`decoders\`` })
    return
  }
  const fault = (rule: string) => found.push({ path: [...at, 'decoder'], rule })
  if (decoders !== null) fault('contradicts `decoders`: leave one of them out')
  else if (engines.some((engine) => decodes(engine) && engine.discover !== null))
    fault('is one receiver, and `discover` may find several decode engines: name the pattern in `decoders`')
  else if (decoding.length > 1)
    fault(`is one receiver for ${decoding.length} decode engines (${decoding.join(', ')}): name each in \`decoders\``)
}

const patternsIn = ({ clusters }: Config): { readonly engine: EngineConfig; readonly at: Path }[] =>
  clusters
    .flatMap(({ pools }, cluster) =>
      pools.flatMap(({ engines }, pool) =>
        engines.map((engine, index) => ({
          engine,
          at: ['clusters', cluster, 'pools', pool, 'engines', index] as Path,
        })),
      ),
    )
    .filter(({ engine }) => engine.discover !== null || engine.kubernetes !== null)

/** Headers that belong to the connection or are set by the gateway. */
const reservedHeaders: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

function checkHeaders(found: Finding[], headers: EngineConfig['headers'], at: Path): void {
  const names = Object.keys(headers)
  duplicates(
    found,
    names.map((name) => [name.toLowerCase(), [...at, 'headers', name]]),
  )
  for (const name of names) {
    if (reservedHeaders.has(name.toLowerCase()))
      found.push({ path: [...at, 'headers', name], rule: 'belongs to the connection and cannot be set' })
  }
}

function checkEngine(found: Finding[], { key, headers }: Pick<EngineConfig, 'key' | 'headers'>, at: Path): void {
  checkHeaders(found, headers, at)
  if (key !== null && Object.keys(headers).some((name) => name.toLowerCase() === 'authorization')) {
    found.push({ path: [...at, 'key'], rule: 'contradicts the header `authorization`: leave one of them out' })
  }
}
