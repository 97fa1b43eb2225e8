/**
 * Table of all metrics, the source of `/metrics`, docs/metrics.md and the Grafana dashboard. Names follow the
 * OpenTelemetry GenAI conventions, else vLLM's. Labels are configured names or closed lists: never an address, a key
 * or client input.
 */
import type { KeyCounts, UsageByKey } from '../core/limits/key-usage.ts'
import type { ClusterDigest, EngineDigest, ReplicaDigest } from '../core/contract/contract.ts'
import type { DecisionCount } from '../core/pool/decisions.ts'
import type { RegionStatus } from '../origin/regions/client.ts'

interface Common {
  readonly name: string
  /** Help text. */
  readonly help: string
  /** Dashboard row; absent: not shown. */
  readonly panel?: string
}

/** One value per engine, from the digest; null: unknown, no sample. */
export interface EngineMetric extends Common {
  readonly from: 'engine'
  readonly type: 'gauge' | 'counter'
  readonly value: (engine: EngineDigest) => number | null | undefined
}

/** State of an engine: one sample per state, 1 or 0. */
export interface StateMetric extends Common {
  readonly from: 'state'
  readonly type: 'gauge'
  readonly label: string
  readonly states: readonly string[]
  readonly value: (engine: EngineDigest) => string
}

/** Decisions, from the digest. */
export interface DecisionMetric extends Common {
  readonly from: 'decision'
  readonly type: 'gauge' | 'counter'
  readonly labels: readonly (keyof DecisionCount)[]
  readonly counts: (count: DecisionCount) => boolean
  /** Value to sum; absent: the number of decisions. */
  readonly sum?: (count: DecisionCount) => number
}

/** One value per pool, from the digest; undefined: no sample. */
export interface PoolMetric extends Common {
  readonly from: 'pool'
  readonly type: 'gauge'
  readonly value: (digest: ClusterDigest) => number | undefined
}

/** Counts of completed requests, from the rollups. `label`: the part after the count's name. */
export interface CountMetric extends Common {
  readonly from: 'count'
  readonly type: 'counter'
  readonly count: string
  readonly label?: string
}

/** Durations of completed requests, from the rollups. `label: 'stage'`: all stages without a metric of their own. */
export interface DurationMetric extends Common {
  readonly from: 'duration'
  readonly type: 'histogram'
  readonly stage: string | null
}

/** One value of the gateway. */
export interface GatewayMetric extends Common {
  readonly from: 'gateway'
  readonly type: 'gauge' | 'counter'
  readonly value: (gateway: GatewayFacts) => number | undefined
}

/** Counts of the gateway, one for each name of a closed list that has any. */
export interface GatewayCountsMetric extends Common {
  readonly from: 'gateway_counts'
  readonly type: 'counter'
  readonly label: string
  readonly counts: (gateway: GatewayFacts) => Readonly<Record<string, number>> | undefined
}

/** One value a pool behind another gateway, from what that one told; null: no sample. */
export interface RegionMetric extends Common {
  readonly from: 'region'
  readonly type: 'gauge'
  readonly value: (region: RegionStatus) => number | null
}

export interface GatewayFacts {
  readonly draining: boolean
  readonly silentEngines: number
  readonly unreachablePools: number
  /** null: no one gateway's counts say anything. */
  readonly own: OwnCounts | null
}

/** What a gateway counts itself. */
export interface OwnCounts {
  readonly droppedRecords: number
  readonly droppedSpans: number
  /** Request bodies held now: of the process, or of the isolate. */
  readonly bufferedBytes: number
  /** Why requests were refused before any engine was chosen. */
  readonly refusals: Readonly<Record<string, number>>
  readonly usage: UsageByKey
  /** How lookups of what LMCache holds ended, over all pools. */
  readonly lookups: {
    readonly made: number
    readonly late: number
    readonly failed: number
    /** Not made, by reason. */
    readonly skipped: Readonly<Record<string, number>>
  }
  /** Absent: there are none. */
  readonly replicas?: readonly ReplicaDigest[] | undefined
  /** Absent: none are configured. */
  readonly replicasUp?: boolean | undefined
}

export type Metric =
  | EngineMetric
  | StateMetric
  | DecisionMetric
  | PoolMetric
  | CountMetric
  | DurationMetric
  | GatewayMetric
  | GatewayCountsMetric
  | RegionMetric

/** Seconds; those of vLLM's `time_to_first_token_seconds`. */
export const BUCKETS_S = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
] as const

const flag = (value: boolean): number => (value ? 1 : 0)
const gauge = (name: string, help: string, value: EngineMetric['value'], panel?: string): EngineMetric => ({
  from: 'engine',
  type: 'gauge',
  name: `firstlight_engine_${name}`,
  help,
  value,
  ...(panel === undefined ? {} : { panel }),
})
const total = (name: string, help: string, value: EngineMetric['value'], panel?: string): EngineMetric => ({
  ...gauge(name, help, value, panel),
  type: 'counter',
})

const perKey = (name: string, help: string, value: (counts: KeyCounts) => number): Metric => ({
  from: 'gateway_counts',
  type: 'counter',
  name: `firstlight_key_${name}_total`,
  help,
  label: 'key',
  counts: (g) =>
    g.own === null ? undefined : Object.fromEntries(Object.entries(g.own.usage).map(([key, of]) => [key, value(of)])),
  panel: 'Requests',
})

/** Counters of this gateway (`GatewayFacts.own`). On Workers each isolate counts its own requests. */
export const OWN_COUNTS: readonly Metric[] = [
  {
    from: 'gateway_counts',
    type: 'counter',
    name: 'firstlight_rejected_requests_total',
    help:
      'Requests rejected before routing, by reason: wrong keys, unknown models, invalid bodies, repetitions at ' +
      'once after 429 (`overloaded`); on Node also malformed HTTP (`bad_http`, `request_timeout`, ' +
      '`expectation_unmet`, `head_too_large`, `transfer_encoding`), connections beyond `limits.connections` ' +
      '(`connections_full`) and clients that stopped reading their response (`write_timeout`).',
    label: 'reason',
    counts: (g) => g.own?.refusals,
    panel: 'Requests',
  },
  perKey('requests', 'Requests, by key.', ({ requests }) => requests),
  perKey('refused', 'Requests that were refused or that no engine served, by key.', ({ refused }) => refused),
  perKey('prompt_tokens', 'Prompt tokens by the engines’ count, by key.', ({ promptTokens }) => promptTokens),
  perKey(
    'cached_tokens',
    'Prompt tokens that engines found in their caches, by key.',
    ({ cachedTokens }) => cachedTokens,
  ),
  perKey('output_tokens', 'Output tokens, by key.', ({ outputTokens }) => outputTokens),
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_buffered_bytes',
    help:
      'Bytes of request bodies buffered until their engines answer. Beyond `limits.buffered_bytes` requests are ' +
      'rejected: `firstlight_rejected_requests_total{reason="buffers_full"}`.',
    value: (g) => g.own?.bufferedBytes,
    panel: 'Health',
  },
  {
    from: 'gateway',
    type: 'counter',
    name: 'firstlight_lmcache_lookups_total',
    help: 'LMCache lookups, with any result.',
    value: (g) => g.own?.lookups.made,
  },
  {
    from: 'gateway',
    type: 'counter',
    name: 'firstlight_lmcache_lookups_late_total',
    help: 'LMCache lookups that exceeded their time budget.',
    value: (g) => g.own?.lookups.late,
  },
  {
    from: 'gateway',
    type: 'counter',
    name: 'firstlight_lmcache_lookups_failed_total',
    help: 'LMCache lookups that failed.',
    value: (g) => g.own?.lookups.failed,
  },
  {
    from: 'gateway_counts',
    type: 'counter',
    name: 'firstlight_lmcache_lookups_skipped_total',
    help:
      'LMCache lookups of the policy that were skipped, by reason: `circuit_open` (LMCache failed or was late ' +
      'five times in a row), `tokenize_paused` (no engine may be asked for token ids: `/tokenize` failed or was ' +
      'late five times in a row, or does not exist), `tokenize_late` (the budget ran out during `/tokenize`), ' +
      '`tokenize_failed` (`/tokenize` gave no token ids for the prompt), `unsupported` (an adapter, pictures or ' +
      'sound, several prompts in one request).',
    label: 'reason',
    counts: (g) => g.own?.lookups.skipped,
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_replicas_server_up',
    help: '1 if the Valkey or Redis server of `replicas` is connected, else 0. No sample: none is configured.',
    value: (g) => (g.own?.replicasUp === undefined ? undefined : Number(g.own.replicasUp)),
    panel: 'Health',
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_replicas_following',
    help: 'Replicas whose bookings are received. No sample: none are configured.',
    value: (g) => g.own?.replicas?.filter(({ state }) => state === 'following').length,
    panel: 'Health',
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_replicas_away',
    help: 'Replicas whose bookings are not received: they and this gateway route without each other’s load.',
    value: (g) => g.own?.replicas?.filter(({ state }) => state === 'away').length,
    panel: 'Health',
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_replicas_bookings',
    help: 'Live bookings of replicas, included in `firstlight_engine_num_requests`.',
    value: (g) => g.own?.replicas?.reduce((sum, { bookings }) => sum + bookings, 0),
  },
  {
    from: 'gateway',
    type: 'counter',
    name: 'firstlight_dropped_records_total',
    help: 'Request records dropped, because they could not be stored in time.',
    value: (g) => g.own?.droppedRecords,
  },
  {
    from: 'gateway',
    type: 'counter',
    name: 'firstlight_dropped_spans_total',
    help: 'Requests whose spans the collector did not accept.',
    value: (g) => g.own?.droppedSpans,
  },
]

const region = (name: string, help: string, value: RegionMetric['value'], panel?: string): RegionMetric => ({
  from: 'region',
  type: 'gauge',
  name: `firstlight_region_${name}`,
  help,
  value,
  ...(panel === undefined ? {} : { panel }),
})

/** Gauges of clusters behind another gateway. */
const REGION_METRICS: readonly RegionMetric[] = [
  region(
    'engines',
    'Available engines behind the gateway of a cluster. No sample of the region metrics: no digest yet, or the ' +
      'engines are this gateway’s own.',
    (r) => r.engines,
    'Regions',
  ),
  region('requests', 'Requests booked in the region, from all gateways.', (r) => r.requests, 'Regions'),
  region('queued_prompts', 'Requests booked in the region that have no first token yet.', (r) => r.queued, 'Regions'),
  region(
    'expected_time_to_first_token_seconds',
    'Expected TTFT of an uncached prompt of 1,024 tokens, including the network. No sample: no engine is available.',
    (r) => (r.expectedTtftMs === null ? null : r.expectedTtftMs / 1000),
    'Regions',
  ),
  region(
    'rtt_seconds',
    'Network round trip: as configured, or the minimum of the last eight measured.',
    (r) => r.rttMs / 1000,
    'Regions',
  ),
  region('digest_age_seconds', 'Age of the last digest of the region.', (r) => r.ageMs / 1000, 'Regions'),
  region('reachable', '1 if the region answered the last query, else 0.', (r) => flag(r.reachable)),
  region(
    'blocking_match',
    '1 if tokenizer and block size equal those of the region. 0: cached prefixes of its engines are unknown.',
    (r) => flag(r.blockingMatch),
  ),
]

/** Stages with a metric of their own; all others are in `firstlight_stage_seconds`. */
export const METRICS: readonly Metric[] = [
  gauge('num_requests', 'Requests booked on the engine now.', (e) => e.requests, 'Load'),
  gauge('active_blocks', 'Prompt and output blocks of live requests.', (e) => e.activeBlocks, 'Load'),
  gauge(
    'pending_prefill_seconds',
    'Prefill time of bookings without a first token, at the learned rate.',
    (e) => e.queuedPrefillS,
    'Load',
  ),
  gauge(
    'uncomputed_prefix_tokens',
    'Tokens of booked prompts that are neither cached nor computed.',
    (e) => e.queuedPrefillTokens,
    'Load',
  ),
  gauge(
    'prefill_todo_workload',
    'Attention work of bookings without a first token, in query-key pairs: sum of (cached + 1 + prompt) x new / 2 ' +
      '(vllm production-stack#670).',
    (e) => e.queuedPrefillWork,
    'Load',
  ),
  gauge(
    'prefill_tokens_per_second',
    'Learned prefill rate of a short prompt.',
    (e) => (e.learned !== undefined && e.learned.costModel.perTokenS > 0 ? 1 / e.learned.costModel.perTokenS : null),
    'Learned',
  ),
  gauge('prefill_rate_confidence', 'Confidence in the learned rate, 0 to 1.', (e) => e.learned?.confidence),
  gauge(
    'prefix_cache_hit_ratio',
    'Decayed mean share of prompt tokens that the engine reported as cached.',
    (e) => e.hitRate,
    'Cache',
  ),
  gauge(
    'cached_blocks',
    'Blocks in the cache of the engine, as tracked by the gateway.',
    (e) => e.cachedBlocks,
    'Cache',
  ),
  gauge(
    'cache_blocks',
    'Capacity in blocks: configured, reported or learned.',
    (e) => e.learned?.cacheBlocks ?? e.cacheBlocks,
  ),
  gauge(
    'kv_events_exact',
    '1 if its KV events are the only source for its cache content. No sample: no bridge sends them.',
    (e) => (e.kvFeed === undefined ? null : flag(e.kvFeed.state === 'exact')),
    'Cache',
  ),
  total(
    'kv_events_blocks_total',
    'Blocks stored and removed, from the KV events of the engine.',
    (e) => e.kvFeed?.changes,
    'Cache',
  ),
  total(
    'kv_events_resyncs_total',
    'Times that the tracked content of the cache was cleared and read again.',
    (e) => e.kvFeed?.resyncs,
  ),
  gauge('kv_events_lag_seconds', 'Time from the last KV events of the engine to their arrival at the gateway.', (e) =>
    e.kvFeed === undefined ? null : e.kvFeed.lagMs / 1000,
  ),
  gauge(
    'time_to_first_token_mean_seconds',
    'Decayed mean of TTFT at the gateway.',
    (e) => (e.ttftMs === null ? null : e.ttftMs / 1000),
    'TTFT',
  ),
  gauge(
    'ttft_prediction_error_ratio',
    'Decayed mean of |actual - predicted| / actual TTFT.',
    (e) => e.learned?.ttftError,
    'Prediction',
  ),
  gauge(
    'step_limit_seconds',
    'Limit of the predicted time between tokens under overload. Absent: the pool has no `slo.itl_ms`.',
    (e) => (e.learned?.stepLimitMs === undefined ? null : e.learned.stepLimitMs / 1000),
    'Overload',
  ),
  gauge(
    'places',
    'Learned number of requests that the engine runs at the same time (max_num_seqs). Absent: no request waited for ' +
      'a place.',
    (e) => e.learned?.places,
    'Load',
  ),
  gauge(
    'predicted_cached_tokens',
    'Decayed mean of predicted cached tokens per request.',
    (e) => e.learned?.predictedCachedTokens,
    'Prediction',
  ),
  gauge(
    'actual_cached_tokens',
    'Decayed mean of reported cached tokens per request.',
    (e) => e.learned?.actualCachedTokens,
    'Prediction',
  ),
  gauge(
    'cached_tokens_error',
    'Decayed mean of |predicted - actual| cached tokens.',
    (e) => e.learned?.cachedTokensError,
  ),
  gauge(
    'silent_miss',
    '1 if cache hits are predicted but never reported, else 0.',
    (e) => (e.learned === undefined ? null : flag(e.learned.silentMiss !== null)),
    'Health',
  ),
  total('cache_lost_total', 'Times that the cache of the engine was found empty.', (e) => e.learned?.restarts),
  gauge(
    'warmth_ratio',
    '0: the engine has just joined or restarted; 1: it has run for a while.',
    (e) => e.learned?.warmth,
  ),
  gauge('available', '1 if the engine may be chosen now, else 0.', (e) => flag(e.available), 'Health'),
  gauge('healthy', '1 if the last health check of the engine succeeded, else 0.', (e) => flag(e.healthy)),
  gauge('draining', '1 if an operator drains the engine, else 0.', (e) => flag(e.draining)),
  {
    from: 'state',
    type: 'gauge',
    name: 'firstlight_engine_circuit',
    help: '1 for the current state of the circuit breaker: closed, open or probing.',
    label: 'state',
    states: ['closed', 'open', 'probing'],
    value: (e) => e.circuit,
    panel: 'Health',
  },
  gauge('reported_num_requests_running', 'Running requests, from the engine’s own metrics.', (e) => e.stats?.running),
  gauge('reported_num_requests_waiting', 'Waiting requests, from the engine’s own metrics.', (e) => e.stats?.waiting),
  gauge(
    'reported_kv_cache_usage_ratio',
    'Used share of the KV cache, from the engine’s own metrics.',
    (e) => e.stats?.kvUsage,
  ),
  total(
    'bookings_total',
    'Total of requests booked on the engine.',
    (e) => e.requestsTotal - (e.countedBefore?.requests ?? 0),
  ),
  total(
    'failures_total',
    'Failed attempts on the engine, including those of requests that fail on every engine.',
    (e) => e.failuresTotal - (e.countedBefore?.failures ?? 0),
    'Health',
  ),
  total(
    'ejections_withheld_total',
    'Failures that did not open the circuit because of a limit of ejection: `circuit.max_ejected_share`, or ' +
      'the last available engine and failures of one client only.',
    (e) => e.ejectionsWithheld,
    'Health',
  ),
  {
    from: 'decision',
    type: 'counter',
    name: 'firstlight_decisions_total',
    help: 'Routing decisions, by policy and by the policy it replaced.',
    labels: ['policy', 'fallback'],
    counts: (d) => d.refused === '',
    panel: 'Decisions',
  },
  {
    from: 'decision',
    type: 'counter',
    name: 'firstlight_placements_total',
    help: 'Routing decisions, by kind of placement.',
    labels: ['placement'],
    counts: (d) => d.refused === '',
    panel: 'Decisions',
  },
  {
    from: 'decision',
    type: 'counter',
    name: 'firstlight_refusals_total',
    help: 'Refused admissions, by reason.',
    labels: ['refused'],
    counts: (d) => d.refused !== '',
    panel: 'Overload',
  },
  {
    from: 'pool',
    type: 'gauge',
    name: 'firstlight_pool_waiting_requests',
    help: 'Requests that wait for room in the queue of the pool. No sample: the pool has no queue.',
    value: ({ queue }) => queue?.requests,
    panel: 'Overload',
  },
  {
    from: 'pool',
    type: 'gauge',
    name: 'firstlight_pool_oldest_wait_seconds',
    help: 'Time that the oldest request in the queue of the pool has waited; 0: none waits.',
    value: ({ queue }) => (queue === undefined ? undefined : queue.oldestMs / 1000),
    panel: 'Overload',
  },
  {
    from: 'decision',
    type: 'counter',
    name: 'firstlight_panic_decisions_total',
    help:
      'Routing decisions in panic mode: circuits were ignored, because a smaller share of engines than ' +
      '`circuit.panic_share` was available.',
    labels: [],
    counts: (d) => d.panic === true,
    panel: 'Health',
  },
  {
    from: 'decision',
    type: 'counter',
    name: 'firstlight_shadow_decisions_total',
    help: 'Routing decisions with a shadow policy, by whether it agreed.',
    labels: ['policy', 'shadow'],
    counts: (d) => (d.shadow ?? '') !== '',
    panel: 'Decisions',
  },
  {
    from: 'decision',
    type: 'gauge',
    name: 'firstlight_shadow_gain_seconds',
    help: 'Sum of the predicted gains in TTFT of the shadow policy; negative: losses.',
    labels: ['policy'],
    counts: (d) => (d.shadow ?? '') !== '',
    sum: (d) => d.shadowGainS ?? 0,
    panel: 'Decisions',
  },
  {
    from: 'decision',
    type: 'counter',
    name: 'firstlight_retries_total',
    help: 'Routing decisions after a failed attempt.',
    labels: [],
    counts: (d) => d.retry && d.refused === '',
    panel: 'Health',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_requests_total',
    help: 'Completed requests, by result.',
    count: 'requests',
    label: 'result',
    panel: 'Requests',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_responses_total',
    help: 'Completed requests, by status class.',
    count: 'status',
    label: 'status',
    panel: 'Requests',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_failed_attempts_total',
    help: 'Failed attempts of requests that were retried, by failure.',
    count: 'retries',
    label: 'failure',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_stream_continuations_total',
    help:
      'Streams whose engine failed after the first byte: continued, replayed, finished without another engine, or ' +
      'the reason why not. Pools with mid_stream only.',
    count: 'continuations',
    label: 'result',
    panel: 'Health',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_hedges_total',
    help:
      'Requests whose first byte was late, by what became of the second engine: its first byte came first (won), ' +
      'that of the first engine did (lost), neither came (failed), or the reason why none was asked. Pools with ' +
      'hedge_ms only.',
    count: 'hedges',
    label: 'result',
    panel: 'Health',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_notes_total',
    help:
      'Exceptional events of completed requests, as in x-firstlight-decision: failovers to other clusters, ' +
      'decisions without the cluster object, skipped KV transfers.',
    count: 'notes',
    label: 'note',
    panel: 'Health',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_prompt_tokens_total',
    help: 'Prompt tokens, as reported by engines.',
    count: 'prompt_tokens',
    panel: 'Requests',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_generation_tokens_total',
    help: 'Output tokens, as reported by engines.',
    count: 'output_tokens',
    panel: 'Requests',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_prompt_tokens_cached_total',
    help: 'Cached prompt tokens, as reported by engines.',
    count: 'cached_tokens',
    panel: 'Cache',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_prompt_tokens_judged_total',
    help: 'Prompt tokens of requests whose engine reported cached tokens: the denominator of the hit rate.',
    count: 'judged_prompt_tokens',
    panel: 'Cache',
  },
  {
    from: 'duration',
    type: 'histogram',
    name: 'gen_ai_server_time_to_first_token_seconds',
    help: 'Time from the arrival of the request to the first byte of its stream.',
    stage: 'ttft',
    panel: 'TTFT',
  },
  {
    from: 'duration',
    type: 'histogram',
    name: 'gen_ai_server_time_per_output_token_seconds',
    help: 'Time per output token after the first.',
    stage: 'output_token',
    panel: 'Requests',
  },
  {
    from: 'duration',
    type: 'histogram',
    name: 'gen_ai_server_request_duration_seconds',
    help: 'Time from the arrival of the request to the end of its response.',
    stage: 'duration',
    panel: 'Requests',
  },
  {
    from: 'duration',
    type: 'histogram',
    name: 'firstlight_predicted_time_to_first_token_seconds',
    help: 'Predicted TTFT of requests with a measured one.',
    stage: 'predicted_ttft',
    panel: 'Prediction',
  },
  {
    from: 'duration',
    type: 'histogram',
    name: 'firstlight_time_to_first_token_error_seconds',
    help: 'Difference of predicted and measured TTFT.',
    stage: 'ttft_error',
    panel: 'Prediction',
  },
  {
    from: 'duration',
    type: 'histogram',
    name: 'firstlight_stage_seconds',
    help: 'Stages before the first token: the gateway’s, the legs of a split, and what engines report.',
    stage: null,
    panel: 'TTFT',
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_draining',
    help: '1 while this gateway shuts down, else 0.',
    value: (g) => flag(g.draining),
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_unreachable_pools',
    help: 'Pools whose cluster object did not answer this scrape.',
    value: (g) => g.unreachablePools,
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_silent_miss_engines',
    help: 'Engines with the silent-miss alarm.',
    value: (g) => g.silentEngines,
  },
  ...REGION_METRICS,
  ...OWN_COUNTS,
]

/** Stages that are shown by metrics of their own. */
export const NAMED_STAGES: ReadonlySet<string> = new Set(
  METRICS.flatMap((metric) => (metric.from === 'duration' && metric.stage !== null ? [metric.stage] : [])),
)
