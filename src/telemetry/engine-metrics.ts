import type { DashboardRow } from './dashboard-row.ts'
import { type EngineMetric, flag, type Metric } from './metric.ts'

const gauge = (name: string, help: string, value: EngineMetric['value'], row?: DashboardRow): EngineMetric => ({
  from: 'engine',
  type: 'gauge',
  name: `firstlight_engine_${name}`,
  help,
  value,
  ...(row === undefined ? {} : { row }),
})

const counter = (name: string, help: string, value: EngineMetric['value'], row?: DashboardRow): EngineMetric => ({
  ...gauge(name, help, value, row),
  type: 'counter',
})

/** Metrics of each engine, from the digest of its pool. */
export const ENGINE_METRICS: readonly Metric[] = [
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
    'Limit of the time between tokens, from which admission refuses. Absent: the pool has no `slo.itl_ms`.',
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
    help: '1 for the current state of the circuit breaker: closed, open or half_open.',
    label: 'state',
    states: ['closed', 'open', 'half_open'],
    value: (e) => e.circuit,
    row: 'Health',
  },
  {
    from: 'state',
    type: 'gauge',
    name: 'firstlight_engine_condition',
    help:
      '1 for the current condition of the engine. suspect: output is overdue and nothing moves; wedged: suspect, and ' +
      'a trial was not answered; unreachable; faulty; saturated: its memory is full; slow: far behind its siblings; ' +
      'well.',
    label: 'condition',
    states: ['well', 'suspect', 'wedged', 'unreachable', 'faulty', 'saturated', 'slow'],
    value: (e) => e.condition ?? 'well',
    row: 'Health',
  },
  counter(
    'abandoned_total',
    'Requests on the engine whose client left before the first token.',
    (e) => e.abandonedTotal,
    'Health',
  ),
  counter(
    'rescued_total',
    'Requests that waited at the engine while it was wedged, and that another engine got.',
    (e) => e.rescuedTotal,
    'Health',
  ),
  counter(
    'adapter_loads_total',
    'LoRA adapters that the gateway loaded on the server on demand. With ranks: in the row of its first one.',
    (e) => e.residents?.loads,
  ),
  counter('adapter_unloads_total', 'LoRA adapters that it unloaded to make room.', (e) => e.residents?.unloads),
  counter('adapter_load_failures_total', 'Adapters that the server could not load.', (e) => e.residents?.failures),
  counter(
    'canary_compared_total',
    'Answers of the semantic canary that were compared with those of another engine.',
    (e) => e.compared?.total,
  ),
  counter('canary_disagreed_total', 'Compared answers that disagreed.', (e) => e.compared?.disagreed),
  gauge('canary_stands_out', '1 if the answers of the engine stand out from those of other engines, else 0.', (e) =>
    e.compared === undefined ? null : Number(e.compared.standsOutSince !== null),
  ),
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
]
