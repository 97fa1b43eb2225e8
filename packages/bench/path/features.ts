/** Features that a configuration can switch, for `npm run bench -- path`. */

/** Keys of a document, merged into the plain one by `documentOf`. */
export interface Switch {
  readonly root?: Readonly<Record<string, unknown>>
  /** Keys of the pool. */
  readonly pool?: Readonly<Record<string, unknown>>
  /** Further clusters. */
  readonly clusters?: readonly unknown[]
  /** Keys of each engine. */
  readonly engines?: (at: number) => Readonly<Record<string, unknown>>
  /** Keys of the first engine. */
  readonly engine?: Readonly<Record<string, unknown>>
  /** Bearer token of the request. */
  readonly token?: string
  /** Further headers of the request. */
  readonly headers?: Readonly<Record<string, string>>
  /** Further keys of the request's body. */
  readonly body?: Readonly<Record<string, unknown>>
  /** Engines of the pool. Default: 2. */
  readonly engineCount?: number
  /** The body comes in parts. */
  readonly hasParts?: true
  /** The pool answers with a promise, as pool state in another thread does. */
  readonly isPoolRemote?: true
}

/**
 * Other plain chats, in which all features are off too. A block that runs in one of them does not belong to a feature,
 * although the first plain chat does not reach it.
 */
export const otherPlainChats: readonly Switch[] = [
  { engineCount: 1 },
  { pool: { adapters: ['other'] }, engine: { models: ['other'] } },
  { engine: { prefix_caching: 'off' } },
  // Its context length is not read.
  { engine: { type: 'ollama' } },
  { pool: { observe_share: 0 } },
  { pool: { response_model: 'requested' } },
  { pool: { policy: 'kv_aware' } },
  { body: { stream_options: { include_usage: true } } },
  { headers: { 'x-firstlight-options': '{"priority":1}' } },
  { hasParts: true },
  { isPoolRemote: true },
]

export interface Feature {
  readonly name: string
  /** Paths below `src`: files, or folders that end in `/`. */
  readonly files: readonly string[]
  readonly on: Switch
}

const key = { name: 'team', secret: 'team-secret' }
const keyed = (more: object): Switch => ({ root: { keys: [{ ...key, ...more }] }, token: key.secret })

/** Target of a mirror. Its engine is away, so no request is repeated: a refusal would run code of other features. */
const copyCluster = {
  id: 'copies',
  pools: [{ model: 'copy', engines: [{ id: 'copy', url: 'http://127.0.0.1:9' }] }],
}

export const features: readonly Feature[] = [
  { name: 'cors', files: ['api/middleware/cors.ts', 'api/cors.ts'], on: { root: { cors: { origins: ['*'] } } } },
  {
    name: 'keys',
    files: ['api/auth/key-store.ts', 'api/auth/bearer.ts', 'api/option-permissions.ts'],
    on: keyed({}),
  },
  {
    name: 'jwt',
    files: ['api/auth/token-verifier.ts'],
    on: {
      root: { ...keyed({}).root, jwt: { jwks_url: 'http://127.0.0.1:9/jwks', issuer: 'i', audience: 'a' } },
      token: key.secret,
    },
  },
  {
    name: 'key_limits',
    files: [
      'api/middleware/limit-keys.ts',
      'api/key-limits.ts',
      'core/limits/key-limiter.ts',
      'core/limits/minute-window.ts',
    ],
    on: keyed({ limits: { requests_per_min: 1_000_000, tokens_per_min: 1_000_000_000 } }),
  },
  {
    name: 'edge keys',
    files: ['api/prompt/edge-prompts.ts', 'api/prompt/measured-prompt.ts', 'api/prompt/blocking-fingerprint.ts'],
    on: keyed({ edge: true }),
  },
  {
    name: 'ranks',
    files: [
      'origin/rank-targets.ts',
      'core/contract/rank-id.ts',
      'core/pool/pool-engines/rank-servers.ts',
      'core/pool/pool-engines/rank-check.ts',
    ],
    on: { engine: { data_parallel: 2 } },
  },
  {
    name: 'slo',
    files: [
      'api/middleware/refuse-repeated.ts',
      'api/repeated-requests.ts',
      'core/capacity/arrivals.ts',
      'core/capacity/capacity-checks.ts',
      'core/capacity/engine-rate.ts',
      'core/capacity/merge-capacities.ts',
      'core/capacity/rate-slope.ts',
      'core/capacity/request-mix.ts',
      'core/capacity/role-capacity.ts',
      'core/overload/refused-requests.ts',
      'core/pool/arrived-work.ts',
      'core/pool/pool-capacity.ts',
    ],
    on: { pool: { slo: { ttft_ms: 60_000 } } },
  },
  {
    name: 'cost',
    files: [
      'core/cost/booking-costs.ts',
      'core/cost/cost-usage.ts',
      'core/cost/engine-time.ts',
      'core/cost/ledger-sources.ts',
      'core/cost/request-cost.ts',
      'api/request-costs.ts',
    ],
    on: { pool: { cost: { price_per_engine_hour: 2 } } },
  },
  {
    name: 'queue',
    files: [
      'origin/placement/wait-for-room.ts',
      'origin/placement/waiting-requests.ts',
      'core/pool/queue/waiting-room.ts',
      'core/pool/queue/waiting-queue.ts',
      'core/pool/queue/request-demand.ts',
    ],
    on: { pool: { queue: { max_requests: 100, max_wait_ms: 10_000 } } },
  },
  {
    name: 'hedging',
    files: ['origin/race/hedge.ts', 'core/latency/first-byte-limit.ts'],
    on: { pool: { retry: { hedge_ms: 10_000 } } },
  },
  {
    name: 'continuation',
    files: ['origin/continuation/', 'core/continuation/'],
    on: { pool: { retry: { mid_stream: 'ids' } } },
  },
  {
    name: 'lmcache lookups',
    files: [
      'origin/lmcache/',
      'origin/engine-tokenizer.ts',
      'core/lmcache/prefix-match.ts',
      'core/lmcache/cache-hints.ts',
    ],
    on: {
      pool: { policy: 'kv_aware', lmcache: { coordinator: 'http://127.0.0.1:9', model: 'fake' } },
      engines: (at) => ({ lmcache_instance: `instance-${at}` }),
    },
  },
  {
    name: 'lmcache registry',
    files: [
      'api/lmcache/',
      'core/lmcache/registry-slot.ts',
      'core/lmcache/cache-registry.ts',
      'core/lmcache/chunk-directory.ts',
    ],
    on: {
      pool: { policy: 'kv_aware', lmcache: { registry: true, model: 'fake', world_size: 1 } },
      engines: (at) => ({ lmcache_instance: `instance-${at}` }),
    },
  },
  {
    name: 'split',
    files: [
      'origin/disagg/attribute-failure.ts',
      'origin/disagg/call-leg.ts',
      'origin/disagg/encode-stage.ts',
      'origin/disagg/first-token.ts',
      'origin/disagg/lmcache-fields.ts',
      'origin/disagg/nixl.ts',
      'origin/disagg/prefill-leg.ts',
      'origin/disagg/early-legs.ts',
      'core/routing/split-decision.ts',
      'core/routing/assign-encoders.ts',
    ],
    on: {
      pool: { split: { mode: 'threshold', threshold_tokens: 1_000_000 } },
      engines: (at) => ({ role: at === 0 ? 'prefill' : 'any' }),
    },
  },
  {
    name: 'traces',
    files: ['telemetry/trace-context.ts', 'telemetry/otlp-spans.ts'],
    on: { root: { traces: { endpoint: 'http://127.0.0.1:9' } } },
  },
  {
    name: 'ttft reports',
    files: ['api/ttft-reports.ts', 'core/reports/report-store.ts', 'core/reports/ttft-state.ts'],
    on: { root: { ttft: { enabled: true } } },
  },
  { name: 'ttft comment', files: ['origin/relay/last-comment.ts'], on: { root: { ttft: { comment: true } } } },
  {
    name: 'regions',
    files: ['origin/regions/', 'core/edge/', 'core/routing/cluster-order.ts'],
    on: { clusters: [{ id: 'far', weight: 0, gateway: { url: 'http://127.0.0.1:9', models: [{ model: 'fake' }] } }] },
  },
  {
    name: 'external engines',
    files: ['engines/external.ts'],
    on: { engine: { kind: 'external', provider_model: 'fake' } },
  },
  { name: 'replicas', files: ['platform/node/replicas/'], on: { root: { replicas: { url: 'redis://127.0.0.1:9' } } } },
  {
    name: 'record',
    files: ['platform/node/recording.ts', 'platform/node/recorded-pool.ts', 'platform/node/trace-file.ts'],
    on: { root: { record: { file: '/tmp/firstlight-path-trace' } } },
  },
  {
    name: 'alerts',
    files: ['telemetry/webhook.ts'],
    on: { root: { alerts: { webhook: { url: 'http://127.0.0.1:9' } } } },
  },
  {
    name: 'canary',
    files: ['origin/canary/', 'core/canary/', 'core/pool/canary-results.ts', 'protocols/comparison.ts'],
    on: { pool: { canary: { share: 1 } } },
  },
  {
    name: 'mirror',
    files: ['api/mirrors.ts', 'core/traffic/mirror-counts.ts'],
    on: { pool: { mirror: { to: 'copy', share: 0 } }, clusters: [copyCluster] },
  },
  { name: 'log.routing', files: ['api/production-stack-line.ts'], on: { root: { log: { routing: true } } } },
  {
    name: 'kv events',
    files: ['core/kv-events/', 'core/prefix-index/kv-event-index.ts'],
    on: { root: { bridge: { secret: 'bridge' } } },
  },
]

/** Document of a gateway in front of two engines, with the features' keys. */
export function documentOf(
  ports: readonly number[],
  { root = {}, pool = {}, clusters = [], engines: keysOf = () => ({}), engine = {}, engineCount = 2 }: Switch,
): object {
  const engines = ports.slice(0, engineCount).map((port, at) => ({
    id: `engine-${at}`,
    url: `http://127.0.0.1:${port}`,
    ...keysOf(at),
    ...(at === 0 ? engine : {}),
  }))
  return {
    clusters: [{ id: 'near', pools: [{ model: 'fake', engines, ...pool }] }, ...clusters],
    log: { level: 'info' },
    ...root,
  }
}
