/**
 * Conversion of NVIDIA Dynamo: flags of `dynamo.frontend`, a launch script, or a DynamoGraphDeployment. Dynamo's
 * workers have no OpenAI API of their own, so each becomes `vllm serve` under an address to fill in.
 */
import { Draft, compact, uniqueIds, type Source } from './draft.ts'
import { Flags, argumentsOf, commandsOf, documentsOf, items, text, tree, type Tree } from './shell.ts'

const FRONTEND = /^dynamo\.frontend$/
const WORKER = /^dynamo\.(?:vllm|sglang|trtllm)$/

const EVENTS = 'events reach the gateway through firstlight bridge. Without them it estimates. See docs/kv-events.md.'
const RUNTIME = 'belongs to Dynamo’s runtime. Engines are reached over HTTP.'

const DROPPED: Readonly<Record<string, string>> = {
  'router-predicted-ttl-secs': 'not needed. A placement counts as cached at once.',
  'router-ttl-secs': EVENTS,
  'router-max-tree-size': EVENTS,
  'router-prune-target-ratio': EVENTS,
  'router-event-threads': EVENTS,
  'router-track-active-blocks': 'not needed. Blocks are always tracked.',
  'router-track-output-blocks': 'not needed. Blocks of the output are tracked for observed streams.',
  'router-assume-kv-reuse': 'engine.prefix_caching.',
  'router-snapshot-threshold': 'not needed. A new replica receives live bookings.',
  'router-reset-states': 'not needed. A new replica receives live bookings.',
  'router-queue-threshold': 'not needed. A full pool returns 429 with Retry-After at once.',
  'active-decode-blocks-threshold': 'by requests instead: engine.max_in_flight.',
  'active-prefill-tokens-threshold': 'by requests instead: engine.max_in_flight.',
  'tls-cert-path': 'not supported. TLS ends at the proxy in front, or at Cloudflare.',
  'tls-key-path': 'not supported. TLS ends at the proxy in front, or at Cloudflare.',
  'discovery-backend': RUNTIME,
  'request-plane': RUNTIME,
  'event-plane': RUNTIME,
  namespace: RUNTIME,
  'namespace-prefix': RUNTIME,
  'migration-limit': 'not needed. Requests are retried on another engine before the first byte.',
  'dyn-chat-processor': 'stays with the engine.',
  'kserve-grpc-server': 'not supported.',
  'grpc-metrics-port': 'not supported.',
  interactive: 'not supported.',
  'metrics-prefix': 'not supported. docs/metrics.md lists the names.',
}

/** Variables that stand for flags of the frontend. */
const VARIABLES: Readonly<Record<string, string>> = {
  DYN_ROUTER_MODE: 'router-mode',
  DYN_HTTP_PORT: 'http-port',
  DYN_HTTP_HOST: 'http-host',
  DYN_KV_CACHE_BLOCK_SIZE: 'kv-cache-block-size',
  DYN_ROUTER_TEMPERATURE: 'router-temperature',
}

interface Worker {
  readonly name: string
  readonly flags: Flags
  readonly replicas: number
}

interface Graph {
  readonly frontend: readonly string[]
  readonly workers: readonly Worker[]
}

export function fromDynamo({ words, text: content, model }: Source): Draft | null {
  const documents = words === null ? documentsOf(content) : []
  const deployment = documents.find(({ kind }) => kind === 'DynamoGraphDeployment')
  const graph =
    deployment === undefined ? graphOfScript(words === null ? commandsOf(content) : [[...words]]) : graphOf(deployment)
  if (graph === null) return null
  const draft = new Draft()
  const flags = new Flags(graph.frontend)
  draft.listen(flags.one('http-host'), flags.one('http-port'), { host: '0.0.0.0', port: 8000 })
  const shared = routing(draft, flags)
  const own = model ?? flags.one('model-name')
  for (const [name, engines] of pools(draft, graph.workers, own))
    draft.pools.push(compact({ model: name, ...shared, engines }))
  for (const [name, value] of flags.unread())
    draft.dropped(
      `--${name}${value === '' ? '' : ` ${value}`}`,
      DROPPED[name] ?? DROPPED[name.replace(/^no-/, '')] ?? 'unknown to firstlight convert. See docs/coming-from.md.',
    )
  return draft
}

function graphOfScript(commands: readonly (readonly string[])[]): Graph | null {
  const [frontend] = argumentsOf(commands, FRONTEND)
  if (frontend === undefined) return null
  const workers = argumentsOf(
    commands.filter(([first]) => first?.startsWith('--') !== true),
    WORKER,
  )
  return { frontend, workers: workers.map((words) => ({ name: 'worker', flags: new Flags(words), replicas: 1 })) }
}

const isFrontend = (part: Tree): boolean => (part['componentType'] ?? part['type']) === 'frontend'

/** Services of v1alpha1 or components of v1beta1. */
function graphOf(deployment: Tree): Graph {
  const spec = tree(deployment['spec'])
  const services = Object.entries(tree(spec['services'])).map(([name, one]) => ({ name, ...tree(one) }) as Tree)
  const parts = [...services, ...items(spec['components']).map(tree)]
  const workers = parts.filter(
    (part) => !isFrontend(part) && WORKER.test(wordsOf(part).find((word) => WORKER.test(word)) ?? ''),
  )
  return {
    frontend: parts.filter(isFrontend).flatMap((part) => [...variablesOf(part), ...wordsOf(part)]),
    workers: workers.map((part) => ({
      name: text(part['name']) ?? 'worker',
      flags: new Flags(wordsOf(part)),
      replicas: Number(part['replicas'] ?? 1),
    })),
  }
}

const containersOf = (part: Tree): readonly Tree[] => [
  tree(tree(part['extraPodSpec'])['mainContainer']),
  ...items(tree(tree(part['podTemplate'])['spec'])['containers']).map(tree),
]

const wordsOf = (part: Tree): string[] =>
  containersOf(part).flatMap(({ command, args }) =>
    [...items(command), ...items(args)].flatMap((word) => text(word) ?? []),
  )

function variablesOf(part: Tree): string[] {
  const env = [...items(part['envs']), ...containersOf(part).flatMap((container) => items(container['env']))].map(tree)
  return env.flatMap(({ name, value }) => {
    const flag = VARIABLES[text(name) ?? '']
    return flag === undefined ? [] : [`--${flag}=${text(value) ?? ''}`]
  })
}

function pools(draft: Draft, workers: readonly Worker[], model: string | null): Map<string, Tree[]> {
  const unique = uniqueIds()
  const found = new Map<string, Tree[]>()
  const given = workers.length > 0 ? workers : [{ name: 'worker', flags: new Flags([]), replicas: 1 }]
  for (const { flags, replicas } of given) {
    const name = model ?? draft.modelOr(flags.one('served-model-name') ?? flags.one('model'), '--model')
    const role = roleOf(flags)
    const engines = Array.from({ length: replicas }, () => {
      const id = unique(role ?? 'engine')
      return compact({ id, url: `http://${id}:8000`, role })
    })
    found.set(name, [...(found.get(name) ?? []), ...engines])
  }
  draft.todo(
    'workers',
    'dynamo.vllm has no HTTP API. Start each worker as vllm serve with the same flags, and write its address in url; ' +
      'a prefill worker needs NixlConnector.',
  )
  return found
}

function roleOf(flags: Flags): 'prefill' | 'decode' | null {
  const mode = flags.one('disaggregation-mode')
  if (mode === 'prefill' || flags.has('is-prefill-worker')) return 'prefill'
  return mode === 'decode' || flags.has('is-decode-worker') ? 'decode' : null
}

const POLICIES: Readonly<Record<string, string>> = {
  'round-robin': 'round_robin',
  random: 'random',
  'power-of-two': 'power_of_two',
  'least-loaded': 'least_loaded',
  'device-aware-weighted': 'least_loaded',
}

function routing(draft: Draft, flags: Flags): Tree {
  const mode = flags.one('router-mode') ?? 'round-robin'
  const blocks = flags.one('kv-cache-block-size')
  const pool: Tree = { policy: POLICIES[mode] ?? 'predicted' }
  if (mode === 'kv' || flags.has('load-aware')) pool['policy'] = activeBlocks(flags)
  else if (POLICIES[mode] === undefined)
    draft.dropped(`--router-mode ${mode}`, 'not supported. The policy is predicted.')
  if (mode === 'device-aware-weighted')
    draft.differs(`--router-mode ${mode}`, 'set engine.weight for each kind of device.')
  if (flags.has('no-router-kv-events') || flags.has('no-kv-events'))
    draft.differs(
      '--no-router-kv-events',
      'the default: cached blocks are estimated and corrected by each response’s usage.',
    )
  else if (mode === 'kv') draft.differs('--router-mode kv', EVENTS)
  if (blocks !== null) pool['block_tokens'] = Number(blocks)
  if (flags.has('router-replica-sync')) draft.todo('--router-replica-sync', 'set replicas.url: docs/replicas.md.')
  return pool
}

function activeBlocks(flags: Flags): unknown {
  const number = (flag: string) => {
    const value = flags.one(flag)
    return value === null ? null : Number(value)
  }
  const options = compact({
    overlap_weight: number('kv-overlap-score-weight') ?? number('router-prefill-load-scale'),
    overlap_credit: number('router-kv-overlap-score-credit'),
    temperature: number('router-temperature'),
  })
  if (options['overlap_credit'] !== undefined) options['rule'] = 'today'
  return Object.keys(options).length === 0 ? 'active_blocks' : { name: 'active_blocks', ...options }
}
