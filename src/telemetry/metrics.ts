/**
 * Table of all metrics, the source of `/metrics`, docs/metrics.md and the Grafana dashboard. Names follow the
 * OpenTelemetry GenAI conventions, else vLLM's. Labels are configured names or closed lists: never an address, a key
 * or client input.
 */
import { GATEWAY_METRICS } from './gateway-metrics.ts'
import { type EngineMetric, flag, type Metric } from './metric.ts'
import { REGION_METRICS } from './region-metrics.ts'

/** Seconds; those of vLLM's `time_to_first_token_seconds`. */
export const BUCKETS_S = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
] as const

const gauge = (name: string, help: string, value: EngineMetric['value'], panel?: string): EngineMetric => ({
  from: 'engine',
  type: 'gauge',
  name: `firstlight_engine_${name}`,
  help,
  value,
  ...(panel === undefined ? {} : { panel }),
})

const counter = (name: string, help: string, value: EngineMetric['value'], panel?: string): EngineMetric => ({
  ...gauge(name, help, value, panel),
  type: 'counter',
})

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
  counter(
    'kv_events_blocks_total',
    'Blocks stored and removed, from the KV events of the engine.',
    (e) => e.kvFeed?.changes,
    'Cache',
  ),
  counter(
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
    'Learned number of requests that the engine runs at the same time (max_num_seqs). Absent: no request waited ' +
      'for a place.',
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
  counter('cache_lost_total', 'Times that the cache of the engine was found empty.', (e) => e.learned?.restarts),
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
  counter(
    'bookings_total',
    'Total of requests booked on the engine.',
    (e) => e.requestsTotal - (e.countedBefore?.requests ?? 0),
  ),
  counter(
    'failures_total',
    'Failed attempts on the engine, including those of requests that fail on every engine.',
    (e) => e.failuresTotal - (e.countedBefore?.failures ?? 0),
    'Health',
  ),
  counter(
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
    help: 'Engines for which cache hits are predicted but never reported.',
    value: (g) => g.silentEngines,
  },
  ...REGION_METRICS,
  ...GATEWAY_METRICS,
]

/** Stages that are shown by metrics of their own. */
export const NAMED_STAGES: ReadonlySet<string> = new Set(
  METRICS.flatMap((metric) => (metric.from === 'duration' && metric.stage !== null ? [metric.stage] : [])),
)
