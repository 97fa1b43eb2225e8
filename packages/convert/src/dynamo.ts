/**
 * Conversion of NVIDIA Dynamo: flags of `dynamo.frontend`, a launch script, or a DynamoGraphDeployment. Dynamo's
 * workers have no OpenAI API of their own, so each becomes `vllm serve` under an address to fill in.
 */
import { Draft, compact, type Source } from './draft.ts'
import { uniqueIds } from './engine-ids.ts'
import { Flags } from './flags.ts'
import { argumentsOf, commandsOf } from './shell.ts'
import { documentsOf, items, text, tree, type Tree } from './documents.ts'
import { wordsOfContainer } from './containers.ts'

const FRONTEND = /^dynamo\.frontend$/
const WORKER = /^dynamo\.(?:vllm|sglang|trtllm)$/

/** Server with an HTTP API of each kind of worker. */
const SERVERS: Readonly<Record<string, string>> = {
  'dynamo.vllm': 'vllm serve',
  'dynamo.sglang': 'python3 -m sglang.launch_server',
  'dynamo.trtllm': 'trtllm-serve',
}

const EVENTS = 'events reach the gateway through firstlight bridge. Without them it estimates. See docs/kv-events.md.'
const RUNTIME = 'belongs to Dynamo’s runtime. Engines are reached over HTTP.'

/** Kinds of components that are neither frontend nor worker. */
const COMPONENTS: Readonly<Record<string, string>> = {
  planner:
    'not supported. The gateway does not scale engines; an autoscaler can use its metrics. See docs/kubernetes.md.',
  epp: 'not needed. The gateway chooses the engine itself. Its plugins have no counterpart.',
}

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
  'router-queue-threshold':
    'optional: queue. Without it a full pool returns 429 with Retry-After. See docs/overload.md.',
  'active-decode-blocks-threshold': 'by predicted latency (slo), or by requests (engine.max_in_flight).',
  'active-prefill-tokens-threshold': 'by predicted latency (slo), or by requests (engine.max_in_flight).',
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
  DYN_MODEL_NAME: 'model-name',
}

interface Worker {
  /** Such as `dynamo.vllm`. */
  readonly program: string
  readonly flags: Flags
  readonly replicas: number
  /** Kind of the component, such as `prefill`. */
  readonly kind: string | null
}

interface Graph {
  /** Arguments of each frontend. */
  readonly frontends: readonly (readonly string[])[]
  readonly workers: readonly Worker[]
  /** What the graph has besides frontends and workers. */
  readonly others: readonly (readonly [item: string, why: string])[]
}

export function fromDynamo({ words, text: content, model }: Source): Draft | null {
  const documents = words === null ? documentsOf(content) : []
  const deployment = documents.find(({ kind }) => kind === 'DynamoGraphDeployment')
  const graph =
    deployment === undefined ? graphOfScript(words === null ? commandsOf(content) : [[...words]]) : graphOf(deployment)
  if (graph === null) return null
  const draft = new Draft()
  const [frontend = [], ...further] = graph.frontends
  const unset = frontend.filter((word) => word.startsWith('$'))
  const flags = new Flags(frontend.filter((word) => !unset.includes(word)))
  for (const word of unset)
    draft.todo(word, 'the script sets it when it runs. Convert the flags: firstlight convert --from dynamo -- FLAGS.')
  draft.listen(flags.one('http-host'), flags.one('http-port'), { host: '0.0.0.0', port: 8000 })
  setTls(draft, flags)
  const shared = routing(draft, flags)
  const own = model ?? flags.one('model-name')
  for (const [name, engines] of pools(draft, graph.workers, own))
    draft.pools.push(compact({ model: name, ...shared, engines }))
  if (further.length > 0)
    draft.todo(
      `${further.length + 1} frontends`,
      'start this document once for each, with its own listen, and set replicas.url: docs/replicas.md.',
    )
  for (const [item, why] of graph.others) draft.dropped(item, why)
  for (const [name, value] of flags.unread())
    draft.dropped(
      `--${name}${value === '' ? '' : ` ${value}`}`,
      DROPPED[name] ?? DROPPED[name.replace(/^no-/, '')] ?? 'unknown to firstlight convert. See docs/coming-from.md.',
    )
  return draft
}

/** Both files belong together. */
function setTls(draft: Draft, flags: Flags): void {
  const [cert, key] = [flags.one('tls-cert-path'), flags.one('tls-key-path')]
  if (cert !== null && key !== null) draft.document['tls'] = { cert, key }
  else if (cert !== null || key !== null) draft.todo('tls', 'the source names only one of certificate and key.')
}

const runsWorker = (words: readonly string[]): boolean => words.some((word) => WORKER.test(word))

function graphOfScript(commands: readonly (readonly string[])[]): Graph | null {
  const frontends = argumentsOf(commands, FRONTEND)
  if (frontends.length === 0) return null
  return {
    frontends,
    workers: commands.filter(runsWorker).map((words) => workerOf(words)),
    others: loopsOf(commands).map((words) => [
      words.join(' '),
      'a worker started in a loop is listed once. Add an engine for each other worker.',
    ]),
  }
}

/** Heads of the loops that start workers. */
function loopsOf(commands: readonly (readonly string[])[]): readonly (readonly string[])[] {
  const open: (readonly string[])[] = []
  return commands.flatMap((words) => {
    if (words[0] === 'for' || words[0] === 'while') open.push(words)
    else if (words[0] === 'done') open.pop()
    return runsWorker(words) && open.length > 0 ? [open.at(-1)!] : []
  })
}

const workerOf = (words: readonly string[], replicas = 1, kind: string | null = null): Worker => {
  const at = words.findIndex((word) => WORKER.test(word))
  return { program: at < 0 ? 'dynamo.vllm' : words[at]!, flags: new Flags(words.slice(at + 1)), replicas, kind }
}

const kindOf = (part: Tree): string | null => text(part['componentType'] ?? part['type'])
const isWorker = (part: Tree): boolean => runsWorker(wordsOf(part))

/** Services of v1alpha1 or components of v1beta1. */
function graphOf(deployment: Tree): Graph {
  const spec = tree(deployment['spec'])
  const services = Object.entries(tree(spec['services'])).map(([name, one]) => ({ name, ...tree(one) }) as Tree)
  const parts = [...services, ...items(spec['components']).map(tree)]
  const workers = parts.filter(isWorker)
  const others = parts.filter((part) => kindOf(part) !== 'frontend' && !isWorker(part))
  const epp = others.filter((part) => kindOf(part) === 'epp')
  const frontends = parts.filter((part) => kindOf(part) === 'frontend')
  return {
    // An endpoint picker routes by the cache, as `--router-mode kv`.
    frontends: [
      ...frontends.map((part) => [...variablesOf(part), ...wordsOf(part)]),
      ...epp.map((part) => ['--router-mode=kv', ...variablesOf(part)]),
    ],
    workers: workers.map((part) =>
      workerOf(workerWords(part), Number(part['replicas'] ?? 1), text(part['subComponentType']) ?? kindOf(part)),
    ),
    others: [
      ...others.map(
        (part) =>
          [
            text(part['name']) ?? 'component',
            COMPONENTS[kindOf(part) ?? ''] ?? 'not supported: neither a frontend nor a worker of Dynamo.',
          ] as const,
      ),
      ...workers.flatMap((part) =>
        part['multinode'] === undefined
          ? []
          : [[`multinode of ${text(part['name'])}`, 'one engine: its address is that of the first node.'] as const],
      ),
    ],
  }
}

const containersOf = (part: Tree): readonly Tree[] => [
  tree(tree(part['extraPodSpec'])['mainContainer']),
  ...items(tree(tree(part['podTemplate'])['spec'])['containers']).map(tree),
]

const wordsOf = (part: Tree): string[] => containersOf(part).flatMap(wordsOfContainer)

/** Words of the container that runs the worker; a frontend beside it is left out. */
const workerWords = (part: Tree): string[] => containersOf(part).map(wordsOfContainer).find(runsWorker) ?? []

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
  const given = workers.length > 0 ? workers : [workerOf([])]
  const canSplit = given.every(({ program }) => program === 'dynamo.vllm')
  const hasPrefill = given.some((worker) => roleOf(worker) === 'prefill')
  const isSplit = hasPrefill && canSplit
  for (const worker of given) {
    const { flags, replicas } = worker
    const served = flags.one('served-model-name') ?? flags.one('model') ?? flags.one('model-path')
    const name = model ?? draft.modelOr(served, '--model')
    // A worker beside prefill workers decodes. Without them it does both.
    const written = roleOf(worker)
    const role = isSplit ? (written ?? 'decode') : written === 'encode' ? written : null
    const engines = Array.from({ length: replicas }, () => {
      const id = unique(role ?? 'engine')
      return compact({ id, url: `http://${id}:8000`, role })
    })
    found.set(name, [...(found.get(name) ?? []), ...engines])
  }
  for (const program of new Set(given.map((worker) => worker.program)))
    draft.todo(
      'workers',
      `${program} has no HTTP API. Start each worker as ${SERVERS[program]} with the same flags, and write its ` +
        `address in url${isSplit ? '; a prefill worker needs NixlConnector' : ''}.`,
    )
  if (hasPrefill && !canSplit)
    draft.differs('prefill workers', 'only vLLM can prefill for another engine here. All workers prefill and decode.')
  return found
}

const ROLES = ['prefill', 'decode', 'encode'] as const
type Role = (typeof ROLES)[number]

function roleOf({ flags, kind }: Worker): Role | null {
  const mode = flags.one('disaggregation-mode')
  const flagged = (role: Role) =>
    mode === role || flags.has(`is-${role}-worker`) || (role === 'encode' && flags.has('multimodal-encode-worker'))
  return ROLES.find(flagged) ?? ROLES.find((role) => role === kind) ?? null
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
    overlap_weight:
      number('kv-overlap-score-weight') ??
      number('router-kv-overlap-score-weight') ??
      number('router-prefill-load-scale'),
    overlap_credit: number('router-kv-overlap-score-credit'),
    temperature: number('router-temperature'),
  })
  if (options['overlap_credit'] !== undefined) options['rule'] = 'today'
  return Object.keys(options).length === 0 ? 'active_blocks' : { name: 'active_blocks', ...options }
}
