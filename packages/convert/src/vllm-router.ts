/** Conversion of vllm-router (Rust); most flags of the SGLang gateway have the same names. */
import { Draft, baseUrlOf, compact, type Source } from './draft.ts'
import { uniqueIds } from './engine-ids.ts'
import { Flags } from './flags.ts'
import { argumentsOf, commandsOf } from './shell.ts'
import { containerCommands } from './containers.ts'
import { documentsOf, type Tree } from './documents.ts'

const PROGRAM = /(?:^|\/)(?:vllm-router|sglang-router|vllm_router(?:\.launch_router)?|sglang_router\.launch_router)$/

const AT_ONCE = 'not needed. The next engine is tried at once.'
const SCHEDULING = 'not supported. Sessions stay on an engine with the policy session.'
const EVENTS = 'events reach the gateway through firstlight bridge. See docs/kv-events.md.'

const DROPPED: Readonly<Record<string, string>> = {
  'eviction-interval-secs': 'not needed. The prefix index has a fixed size, index_entries.',
  'eviction-interval': 'not needed. The prefix index has a fixed size, index_entries.',
  'max-tree-size': 'counts characters. index_entries limits the prefix index in blocks.',
  'retry-initial-backoff-ms': AT_ONCE,
  'retry-max-backoff-ms': AT_ONCE,
  'retry-backoff-multiplier': AT_ONCE,
  'retry-jitter-factor': AT_ONCE,
  'cb-success-threshold': 'not needed. A half-open circuit closes after one successful trial.',
  'cb-window-duration-secs': 'not needed. Consecutive failures are counted.',
  'disable-circuit-breaker': 'not supported. circuit.failures: 1000 is close to it.',
  'health-failure-threshold': 'circuit.failures counts failed requests and failed health checks.',
  'health-success-threshold': 'not needed. A half-open circuit closes after one successful trial.',
  'health-check-timeout-secs': 'not needed. A check has 2 s to connect and 5 s to answer.',
  'worker-startup-timeout-secs': 'not needed. Engines are used when their health check succeeds.',
  'worker-startup-check-interval': 'not needed. Engines are used when their health check succeeds.',
  'request-id-headers': 'not needed. x-request-id is accepted, returned and forwarded.',
  'prometheus-host': 'metrics are at GET /metrics of the gateway’s own port.',
  'prometheus-port': 'metrics are at GET /metrics of the gateway’s own port.',
  'log-dir': 'not needed. Logs go to standard output.',
  'mini-lb': 'not needed.',
  'enable-igw': 'not needed. Several models are several pools.',
  'queue-size': 'not needed. max_waiting limits the requests without a first token, and slo.ttft_ms their wait.',
  'queue-timeout-secs': 'not needed. slo.ttft_ms refuses a request that would wait too long.',
  'rate-limit-tokens-per-second': 'limits are per client key: keys[].limits. See docs/key-limits.md.',
  'wasm-middleware': 'not supported. Requests are forwarded byte for byte.',
  'wasm-middleware-sha256': 'not supported.',
  'wasm-middleware-route': 'not supported.',
  'enable-program-scheduling': SCHEDULING,
  'program-scheduling-config-json': SCHEDULING,
  'router-temperature': 'not supported by the converted policy. predicted has an option temperature.',
  'kv-penalty-host': 'tiers are priced from LMCache’s own reports. See docs/lmcache.md.',
  'kv-penalty-external': 'tiers are priced from LMCache’s own reports. See docs/lmcache.md.',
  'kv-penalty-disk': 'tiers are priced from LMCache’s own reports. See docs/lmcache.md.',
  'kv-aware-session-affinity-ttl-secs': 'not needed. predicted prefers the engine that has the conversation cached.',
  'kv-event-source': EVENTS,
  'kv-event-replay-source': EVENTS,
  'kv-event-block-size': EVENTS,
  'kv-event-model': EVENTS,
  'pd-kv-events': EVENTS,
  'vllm-discovery-address': 'engines do not register. List them, or use discover: dns or kubernetes.',
  'prefill-policy': 'not supported. One policy ranks inside each role.',
  'decode-policy': 'not supported. One policy ranks inside each role.',
  'api-key-validation-urls': 'not supported. Clients and their keys are listed under keys.',
}

export function fromVllmRouter({ words, text: content, model }: Source): Draft | null {
  const given = words ?? wordsIn(content)
  if (given === null) return null
  const draft = new Draft()
  const flags = new Flags(given)
  common(draft, flags)
  const engines = flags.has('service-discovery') ? podsOf(draft, flags) : listed(draft, flags)
  const pool = routing(draft, flags)
  draft.pools.push({ model: draft.modelOr(model, '--worker-urls'), ...pool, engines })
  for (const [name, value] of flags.unread())
    draft.dropped(
      `--${name}${value === '' ? '' : ` ${value}`}`,
      DROPPED[name] ?? 'unknown to firstlight convert. See docs/coming-from.md.',
    )
  return draft
}

function wordsIn(content: string): readonly string[] | null {
  const documents = documentsOf(content)
  const commands = documents.length === 0 ? commandsOf(content) : containerCommands(documents)
  return argumentsOf(commands, PROGRAM)[0] ?? null
}

function common(draft: Draft, flags: Flags): void {
  draft.listen(flags.one('host'), flags.one('port'), { host: '127.0.0.1', port: 30_000 })
  const level = flags.one('log-level')
  if (level !== null) draft.document['log'] = { level: { warning: 'warn', critical: 'error' }[level] ?? level }
  const bytes = flags.one('max-payload-size')
  if (bytes !== null) draft.document['limits'] = { body_bytes: Number(bytes) }
  const origins = flags.all('cors-allowed-origins')
  if (origins.length > 0) draft.document['cors'] = { origins: [...origins] }
  const endpoint = flags.one('otlp-traces-endpoint')
  flags.has('enable-trace')
  if (endpoint !== null) {
    const url = /^https?:/.test(endpoint) ? endpoint : `http://${endpoint.replace(/:4317$/, ':4318')}`
    draft.document['traces'] = { endpoint: url }
    draft.differs('--otlp-traces-endpoint', 'traces use OTLP over HTTP (port 4318), not gRPC (4317).')
  }
  const inFlight = flags.one('max-concurrent-requests')
  if (inFlight !== null)
    draft.differs('--max-concurrent-requests', `a limit per engine, max_in_flight, replaces the total of ${inFlight}.`)
}

/** Engines by URL. Data-parallel ranks belong to their server. */
function listed(draft: Draft, flags: Flags): Tree[] {
  flags.has('service-discovery-port')
  const unique = uniqueIds()
  const ranks = Number(flags.one('intra-node-data-parallel-size') ?? 1)
  const key = keyOf(draft, flags)
  const more = ranks > 1 ? { data_parallel: ranks } : {}
  const engine = (url: string, role: 'prefill' | 'decode' | null): Tree =>
    compact({ id: unique(role ?? 'engine'), url: baseUrlOf(url), role, key, ...more })
  const prefill = flags.each('prefill').flatMap(([url, bootstrap = 'none']) => {
    if (bootstrap !== 'none')
      draft.dropped(`--prefill ${url} ${bootstrap}`, 'bootstrap ports are SGLang’s: not supported.')
    return url === undefined ? [] : [engine(url, 'prefill')]
  })
  const decode = flags.all('decode').map((url) => engine(url, 'decode'))
  const engines = [...flags.all('worker-urls').map((url) => engine(url, null)), ...prefill, ...decode]
  if (engines.length === 0) draft.todo('--worker-urls', 'the source names no engines. Add them under engines.')
  return engines
}

function keyOf(draft: Draft, flags: Flags): Tree | null {
  if (!flags.has('api-key')) return null
  draft.todo('--api-key', 'set ENGINE_KEY to this key; the document contains no secrets.')
  return { env: 'ENGINE_KEY' }
}

function podsOf(draft: Draft, flags: Flags): Tree[] {
  const port = flags.one('service-discovery-port') ?? '80'
  const namespace = flags.one('service-discovery-namespace')
  if (namespace === null)
    draft.differs('--service-discovery', 'one namespace is watched: the gateway’s, or kubernetes.namespace.')
  const key = keyOf(draft, flags)
  const selectors = [
    ['selector', null],
    ['prefill-selector', 'prefill'],
    ['decode-selector', 'decode'],
  ] as const
  return selectors.flatMap(([flag, role]) => {
    const labels = flags.all(flag)
    if (labels.length === 0) return []
    const kubernetes = compact({ namespace, selector: labels.join(',') })
    return [compact({ id: role ?? 'pods', url: `http://pods:${port}`, discover: 'kubernetes', role, key, kubernetes })]
  })
}

/** Policies by name; the names of sticky policies differ. */
const POLICIES: Readonly<Record<string, string>> = {
  random: 'random',
  round_robin: 'round_robin',
  power_of_two: 'power_of_two',
  consistent_hash: 'session',
  rendezvous_hash: 'session',
  sticky_least_loaded: 'session',
  kv_aware: 'predicted',
}

function routing(draft: Draft, flags: Flags): Tree {
  const pool: Tree = { policy: policyOf(draft, flags) }
  if (pool['policy'] === 'session') pool['session'] = { header: 'x-session-id', body: 'user' }
  const isSplit = flags.has('vllm-pd-disaggregation') || flags.has('prefill') || flags.has('prefill-selector')
  const connector = flags.one('kv-connector') ?? 'nixl'
  if (isSplit) pool['split'] = { mode: 'always', connector: 'nixl' }
  if (connector !== 'nixl') draft.dropped(`--kv-connector ${connector}`, 'not supported. Engines need NixlConnector.')
  Object.assign(pool, health(draft, flags), limits(draft, flags))
  return compact(pool)
}

/** Reads flags as numbers; null: absent. */
const numbersOf = (flags: Flags) => (flag: string) => {
  const value = flags.one(flag)
  return value === null ? null : Number(value)
}

function policyOf(draft: Draft, flags: Flags): unknown {
  const name = flags.one('policy') ?? 'cache_aware'
  const number = numbersOf(flags)
  if (name === 'cache_aware') {
    draft.differs('cache_aware', 'a prompt without a cached prefix goes to the least loaded engine.')
    return {
      name: 'prefix',
      min_match: number('cache-threshold') ?? 0.3,
      imbalance_abs: number('balance-abs-threshold') ?? 64,
      imbalance_rel: number('balance-rel-threshold') ?? 1.5,
    }
  }
  if (name === 'kv_aware') draft.differs('kv_aware', 'predicted also counts queued work and the speed of each engine.')
  const known = POLICIES[name]
  if (known !== undefined) return known
  draft.dropped(`--policy ${name}`, 'unknown to firstlight convert. The default policy is predicted.')
  return 'predicted'
}

function health(draft: Draft, flags: Flags): Tree {
  const interval = flags.one('health-check-interval-secs')
  const endpoint = flags.one('health-check-endpoint')
  if (endpoint !== null && endpoint !== '/health')
    draft.dropped(`--health-check-endpoint ${endpoint}`, 'not supported. Engines are checked with GET /health.')
  const failures = flags.one('cb-failure-threshold')
  const open = flags.one('cb-timeout-duration-secs')
  const circuit = compact({
    failures: failures === null ? null : Number(failures),
    open_ms: open === null ? null : Number(open) * 1000,
  })
  return compact({
    stats_interval_ms: interval === null ? null : Number(interval) * 1000,
    circuit: Object.keys(circuit).length === 0 ? null : circuit,
  })
}

function limits(draft: Draft, flags: Flags): Tree {
  const seconds = flags.one('request-timeout-secs')
  const attempts = flags.one('retry-max-retries')
  const isOff = flags.has('disable-retries') || attempts === '0'
  if (attempts !== null && !isOff)
    draft.differs(`--retry-max-retries ${attempts}`, 'retries are limited by a share of traffic: retry.share.')
  const ms = seconds === null ? null : Number(seconds) * 1000
  if (ms !== null)
    draft.differs('--request-timeout-secs', 'limits the time to the first byte and complete responses, not streams.')
  return compact({
    retry: isOff ? { share: 0, min_per_s: 0 } : null,
    limits: ms === null ? null : { first_byte_ms: ms, answer_ms: ms },
  })
}
