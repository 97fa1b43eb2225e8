/**
 * Table of all metrics, the source of `/metrics`, docs/metrics.md and the Grafana dashboard. Names follow the
 * OpenTelemetry GenAI conventions, else vLLM's. Labels are configured names or closed lists: never an address, a key
 * or client input.
 */
import type { EngineDigest, ReplicaDigest } from '../core/contract/contract.ts'
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

/** Counters of this gateway (`GatewayFacts.own`). On Workers each isolate counts its own requests. */
export const OWN_COUNTS: readonly Metric[] = [
  {
    from: 'gateway_counts',
    type: 'counter',
    name: 'firstlight_rejected_requests_total',
    help: 'Requests refused before any engine was chosen, by reason: wrong keys, unknown models, invalid bodies; on Node also malformed HTTP (`bad_http`, `request_timeout`, `expectation_unmet`, `head_too_large`, `transfer_encoding`), connections beyond `limits.connections` (`connections_full`) and clients that stopped reading their answer (`write_timeout`).',
    label: 'reason',
    counts: (g) => g.own?.refusals,
    panel: 'Requests',
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_buffered_bytes',
    help: 'Request bodies held until their engines answer, of at most `limits.buffered_bytes`. Beyond it requests are refused: `firstlight_rejected_requests_total{reason="buffers_full"}`.',
    value: (g) => g.own?.bufferedBytes,
    panel: 'Health',
  },
  {
    from: 'gateway',
    type: 'counter',
    name: 'firstlight_lmcache_lookups_total',
    help: 'Lookups of what LMCache holds that were made, whatever their result.',
    value: (g) => g.own?.lookups.made,
  },
  {
    from: 'gateway',
    type: 'counter',
    name: 'firstlight_lmcache_lookups_late_total',
    help: 'Lookups given up when their budget was spent.',
    value: (g) => g.own?.lookups.late,
  },
  {
    from: 'gateway',
    type: 'counter',
    name: 'firstlight_lmcache_lookups_failed_total',
    help: 'Lookups that failed.',
    value: (g) => g.own?.lookups.failed,
  },
  {
    from: 'gateway_counts',
    type: 'counter',
    name: 'firstlight_lmcache_lookups_skipped_total',
    help: 'Lookups that the policy reads and that were not made, by reason: `circuit_open` (LMCache failed or was late five times in a row), `tokenize_paused` (no engine may be asked for token ids: `/tokenize` failed or was late five times in a row, or does not exist), `tokenize_late` (the budget ran out during `/tokenize`), `tokenize_failed` (`/tokenize` gave no token ids for the prompt), `unsupported` (an adapter, pictures or sound, several prompts in one request).',
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
    help: 'Other gateways whose bookings are received. No sample: none are configured.',
    value: (g) => g.own?.replicas?.filter(({ state }) => state === 'following').length,
    panel: 'Health',
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_replicas_away',
    help: 'Other gateways whose bookings are not received: they and this one route without each other’s load.',
    value: (g) => g.own?.replicas?.filter(({ state }) => state === 'away').length,
    panel: 'Health',
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_replicas_bookings',
    help: 'Live bookings of other gateways, which `firstlight_engine_num_requests` counts too.',
    value: (g) => g.own?.replicas?.reduce((sum, { bookings }) => sum + bookings, 0),
  },
  {
    from: 'gateway',
    type: 'counter',
    name: 'firstlight_dropped_records_total',
    help: 'Records of requests that nobody took in time.',
    value: (g) => g.own?.droppedRecords,
  },
  {
    from: 'gateway',
    type: 'counter',
    name: 'firstlight_dropped_spans_total',
    help: 'Requests whose spans the collector did not take.',
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
    'Engines behind the gateway of a cluster that may be given a prompt now. No sample of any of these: nothing was heard yet, or the engines are this gateway’s own.',
    (r) => r.engines,
    'Regions',
  ),
  region('requests', 'Requests booked there, whoever sent them.', (r) => r.requests, 'Regions'),
  region('queued_prompts', 'Of those, prompts whose first token has not come.', (r) => r.queued, 'Regions'),
  region(
    'expected_time_to_first_token_seconds',
    'Until the first token of a prompt of 1,024 tokens that nobody there holds, the way included. No sample: nobody there may be given one.',
    (r) => (r.expectedTtftMs === null ? null : r.expectedTtftMs / 1000),
    'Regions',
  ),
  region(
    'rtt_seconds',
    'The way there and back: as configured, or the least of the last eight measured.',
    (r) => r.rttMs / 1000,
    'Regions',
  ),
  region('digest_age_seconds', 'How old what it told last is.', (r) => r.ageMs / 1000, 'Regions'),
  region('reachable', 'Did it tell when it was last asked?', (r) => flag(r.reachable)),
  region(
    'blocking_match',
    'Are prompts cut into blocks there as they are here? 0: what its engines hold is not known here.',
    (r) => flag(r.blockingMatch),
  ),
]

/** Stages with a metric of their own; all others are in `firstlight_stage_seconds`. */
export const METRICS: readonly Metric[] = [
  gauge('num_requests', 'Requests booked on the engine.', (e) => e.requests, 'Load'),
  gauge('active_blocks', 'Prompt and output blocks of live requests.', (e) => e.activeBlocks, 'Load'),
  gauge(
    'pending_prefill_seconds',
    'Booked prefill without a first token yet, at the learned rate.',
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
    'prefill_tokens_per_second',
    'Learned prefill rate of a short prompt.',
    (e) => (e.learned !== undefined && e.learned.costModel.perTokenS > 0 ? 1 / e.learned.costModel.perTokenS : null),
    'Learned',
  ),
  gauge('prefill_rate_confidence', 'How sure the learned rate is, 0 to 1.', (e) => e.learned?.confidence),
  gauge(
    'prefix_cache_hit_ratio',
    'Share of prompt tokens the engine said were cached, a decayed mean.',
    (e) => e.hitRate,
    'Cache',
  ),
  gauge('cached_blocks', 'Blocks the engine is believed to hold.', (e) => e.cachedBlocks, 'Cache'),
  gauge(
    'cache_blocks',
    'Blocks it can hold, as configured, reported or learned.',
    (e) => e.learned?.cacheBlocks ?? e.cacheBlocks,
  ),
  gauge(
    'kv_events_exact',
    'Do its own KV events, and nothing else, say what it holds? No sample: no bridge passes them on.',
    (e) => (e.kvFeed === undefined ? null : flag(e.kvFeed.state === 'exact')),
    'Cache',
  ),
  total(
    'kv_events_blocks_total',
    'Blocks stored and removed, as its KV events told.',
    (e) => e.kvFeed?.changes,
    'Cache',
  ),
  total('kv_events_resyncs_total', 'Times the picture of its cache began anew.', (e) => e.kvFeed?.resyncs),
  gauge('kv_events_lag_seconds', 'From its last KV events to their arrival here.', (e) =>
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
    'predicted_cached_tokens',
    'Decayed mean a request, as predicted.',
    (e) => e.learned?.predictedCachedTokens,
    'Prediction',
  ),
  gauge(
    'actual_cached_tokens',
    'Decayed mean a request, as the engine reported.',
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
    'Alarm: cache hits are predicted and never seen.',
    (e) => (e.learned === undefined ? null : flag(e.learned.silentMiss !== null)),
    'Health',
  ),
  total('cache_lost_total', 'Times its cache was found empty.', (e) => e.learned?.restarts),
  gauge('warmth_ratio', '0: just joined or restarted; 1: there for a while.', (e) => e.learned?.warmth),
  gauge('available', 'May it be chosen now?', (e) => flag(e.available), 'Health'),
  gauge('healthy', 'Did its last probe succeed?', (e) => flag(e.healthy)),
  gauge('draining', 'Taken out of the choice by an operator.', (e) => flag(e.draining)),
  {
    from: 'state',
    type: 'gauge',
    name: 'firstlight_engine_circuit',
    help: 'State of its circuit breaker.',
    label: 'state',
    states: ['closed', 'open', 'probing'],
    value: (e) => e.circuit,
    panel: 'Health',
  },
  gauge('reported_num_requests_running', 'As the engine’s own metrics say.', (e) => e.stats?.running),
  gauge('reported_num_requests_waiting', 'As the engine’s own metrics say.', (e) => e.stats?.waiting),
  gauge('reported_kv_cache_usage_ratio', 'As the engine’s own metrics say.', (e) => e.stats?.kvUsage),
  total('bookings_total', 'Requests booked on it.', (e) => e.requestsTotal - (e.countedBefore?.requests ?? 0)),
  total(
    'failures_total',
    'Attempts that failed on it, those of requests that every engine fails among them.',
    (e) => e.failuresTotal - (e.countedBefore?.failures ?? 0),
    'Health',
  ),
  total(
    'ejections_withheld_total',
    'Failures that would have opened its circuit but for a limit of ejection: `circuit.max_ejected_share`, or the last available engine on the account of one client.',
    (e) => e.ejectionsWithheld,
    'Health',
  ),
  {
    from: 'decision',
    type: 'counter',
    name: 'firstlight_decisions_total',
    help: 'Choices, by policy and by the policy it stood in for.',
    labels: ['policy', 'fallback'],
    counts: (d) => d.refused === '',
    panel: 'Decisions',
  },
  {
    from: 'decision',
    type: 'counter',
    name: 'firstlight_placements_total',
    help: 'Choices by the legs they have.',
    labels: ['placement'],
    counts: (d) => d.refused === '',
    panel: 'Decisions',
  },
  {
    from: 'decision',
    type: 'counter',
    name: 'firstlight_refusals_total',
    help: 'Admissions refused, by reason.',
    labels: ['refused'],
    counts: (d) => d.refused !== '',
    panel: 'Decisions',
  },
  {
    from: 'decision',
    type: 'counter',
    name: 'firstlight_panic_decisions_total',
    help: 'Choices in panic mode: circuits were ignored, since less than `circuit.panic_share` of the engines was available.',
    labels: [],
    counts: (d) => d.panic === true,
    panel: 'Health',
  },
  {
    from: 'decision',
    type: 'counter',
    name: 'firstlight_shadow_decisions_total',
    help: 'Choices that a shadow policy ranked too, by whether it agreed.',
    labels: ['policy', 'shadow'],
    counts: (d) => (d.shadow ?? '') !== '',
    panel: 'Decisions',
  },
  {
    from: 'decision',
    type: 'gauge',
    name: 'firstlight_shadow_gain_seconds',
    help: 'Sum over its choices of how much sooner the shadow policy expected the first token; negative: later.',
    labels: ['policy'],
    counts: (d) => (d.shadow ?? '') !== '',
    sum: (d) => d.shadowGainS ?? 0,
    panel: 'Decisions',
  },
  {
    from: 'decision',
    type: 'counter',
    name: 'firstlight_retries_total',
    help: 'Choices after an attempt that failed.',
    labels: [],
    counts: (d) => d.retry && d.refused === '',
    panel: 'Health',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_requests_total',
    help: 'Ended requests, by how they ended.',
    count: 'requests',
    label: 'result',
    panel: 'Requests',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_responses_total',
    help: 'Ended requests, by class of status.',
    count: 'status',
    label: 'status',
    panel: 'Requests',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_failed_attempts_total',
    help: 'Attempts that failed before the request ended elsewhere, by how.',
    count: 'retries',
    label: 'failure',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_notes_total',
    help: 'What was unusual about ended requests, as x-firstlight-decision says it: failovers to other clusters, choices without the books, hand-overs that were not made.',
    count: 'notes',
    label: 'note',
    panel: 'Health',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_prompt_tokens_total',
    help: 'Prompt tokens, as engines counted.',
    count: 'prompt_tokens',
    panel: 'Requests',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_generation_tokens_total',
    help: 'Output tokens, as engines counted.',
    count: 'output_tokens',
    panel: 'Requests',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_prompt_tokens_cached_total',
    help: 'Prompt tokens that engines had cached.',
    count: 'cached_tokens',
    panel: 'Cache',
  },
  {
    from: 'count',
    type: 'counter',
    name: 'firstlight_prompt_tokens_judged_total',
    help: 'Prompt tokens of requests whose engine said how many it had cached: what the cached ones are a share of.',
    count: 'judged_prompt_tokens',
    panel: 'Cache',
  },
  {
    from: 'duration',
    type: 'histogram',
    name: 'gen_ai_server_time_to_first_token_seconds',
    help: 'From the request’s arrival to the first byte of its stream.',
    stage: 'ttft',
    panel: 'TTFT',
  },
  {
    from: 'duration',
    type: 'histogram',
    name: 'gen_ai_server_time_per_output_token_seconds',
    help: 'Of each output token after the first.',
    stage: 'output_token',
    panel: 'Requests',
  },
  {
    from: 'duration',
    type: 'histogram',
    name: 'gen_ai_server_request_duration_seconds',
    help: 'From the request’s arrival to the end of its answer.',
    stage: 'duration',
    panel: 'Requests',
  },
  {
    from: 'duration',
    type: 'histogram',
    name: 'firstlight_predicted_time_to_first_token_seconds',
    help: 'What was predicted, of requests whose TTFT was seen.',
    stage: 'predicted_ttft',
    panel: 'Prediction',
  },
  {
    from: 'duration',
    type: 'histogram',
    name: 'firstlight_time_to_first_token_error_seconds',
    help: 'Difference of predicted and seen TTFT.',
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
    help: 'Is this gateway shutting down?',
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
