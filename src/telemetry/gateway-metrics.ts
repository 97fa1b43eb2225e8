import type { CostCounts } from '../core/cost/cost-usage.ts'
import type { KeyCounts } from '../core/limits/key-usage.ts'
import type { TargetCounts } from '../core/traffic/target-counts.ts'
import type { Metric } from './metric.ts'

const keyCounter = (name: string, help: string, value: (counts: KeyCounts) => number): Metric => ({
  from: 'gateway_counts',
  type: 'counter',
  name: `firstlight_key_${name}_total`,
  help,
  label: 'key',
  counts: (g) =>
    g.own === null ? undefined : Object.fromEntries(Object.entries(g.own.usage).map(([key, of]) => [key, value(of)])),
  row: 'Requests',
})

const COST_KINDS = ['key', 'team', 'model'] as const

/** One metric for keys, one for teams and one for models. */
const costCounters = (name: string, help: string, value: (counts: CostCounts) => number): readonly Metric[] =>
  COST_KINDS.map((kind) => ({
    from: 'gateway_counts',
    type: 'counter',
    name: `firstlight_${kind}_${name}_total`,
    help: `${help} by ${kind} (pools with \`cost\`).`,
    label: kind,
    counts: (g) =>
      g.own?.costs === undefined
        ? undefined
        : Object.fromEntries(Object.entries(g.own.costs[kind]).map(([one, counts]) => [one, value(counts)])),
    row: 'Cost',
  }))

const targetCounter = (name: string, help: string, value: (counts: TargetCounts) => number): Metric => ({
  from: 'target',
  of: 'targets',
  type: 'counter',
  name: `firstlight_target_${name}_total`,
  help,
  value,
})

/** `target` is the model that got the repeated requests. Their originals have that of `name`. */
const mirrorCounter = (name: string, help: string, value: (counts: TargetCounts) => number): Metric => ({
  from: 'target',
  of: 'mirrors',
  type: 'counter',
  name: `firstlight_mirror_${name}_total`,
  help: `${help} (mirror traffic; originals if \`target\` is \`name\`).`,
  value,
})

/** Counters of this gateway (`GatewayFacts.own`). On Workers each isolate counts its own requests. */
export const GATEWAY_METRICS: readonly Metric[] = [
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
    row: 'Requests',
  },
  keyCounter('requests', 'Requests, by key.', ({ requests }) => requests),
  keyCounter('refused', 'Requests that were refused or that no engine served, by key.', ({ refused }) => refused),
  keyCounter('prompt_tokens', 'Prompt tokens by the engines’ count, by key.', ({ promptTokens }) => promptTokens),
  keyCounter(
    'cached_tokens',
    'Prompt tokens that engines found in their caches, by key.',
    ({ cachedTokens }) => cachedTokens,
  ),
  keyCounter(
    'output_tokens',
    'Output tokens, by key. Those of streams that are not read are an estimate.',
    ({ outputTokens }) => outputTokens,
  ),
  ...costCounters(
    'engine_seconds',
    'Share of requests in the busy time of engines, seconds,',
    ({ engineS }) => engineS,
  ),
  ...costCounters('saved_seconds', 'Prefill that cached tokens have saved, seconds,', ({ savedS }) => savedS),
  ...costCounters('cost', 'Money for engine seconds by `price_per_engine_hour`,', ({ money }) => money),
  {
    from: 'gateway_counts',
    type: 'counter',
    name: 'firstlight_budget_warnings_total',
    help: 'Budgets that passed 80 % or were spent, by account: a key, or `team:NAME`.',
    label: 'account',
    counts: (g) => g.own?.budgets?.warned,
    row: 'Cost',
  },
  {
    from: 'gateway_counts',
    type: 'counter',
    name: 'firstlight_budget_refused_requests_total',
    help: 'Requests refused because a budget was spent, by account.',
    label: 'account',
    counts: (g) => g.own?.budgets?.refused,
    row: 'Cost',
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_buffered_bytes',
    help:
      'Bytes of request bodies buffered until their engines answer. Beyond `limits.buffered_bytes` requests are ' +
      'rejected: `firstlight_rejected_requests_total{reason="buffers_full"}`.',
    value: (g) => g.own?.bufferedBytes,
    row: 'Health',
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
      '`tokenize_failed` (`/tokenize` gave no token ids for the prompt), `unsupported` (an adapter, images or ' +
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
    row: 'Health',
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_replicas_following',
    help: 'Replicas whose bookings are received. No sample: none are configured.',
    value: (g) => g.own?.replicas?.filter(({ state }) => state === 'following').length,
    row: 'Health',
  },
  {
    from: 'gateway',
    type: 'gauge',
    name: 'firstlight_replicas_away',
    help: 'Replicas whose bookings are not received: they and this gateway route without each other’s load.',
    value: (g) => g.own?.replicas?.filter(({ state }) => state === 'away').length,
    row: 'Health',
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
  targetCounter('requests', 'Requests for a weighted model that went to this target.', ({ requests }) => requests),
  targetCounter('refused', 'Requests for the target that were refused before an engine.', ({ refused }) => refused),
  targetCounter('failed', 'Requests for the target that failed at their engines, or had none.', ({ failed }) => failed),
  targetCounter('first_tokens', 'Requests for the target that got a first token.', ({ firstTokens }) => firstTokens),
  targetCounter('ttft_seconds', 'Sum of the times to first token of the target.', ({ ttftMs }) => ttftMs / 1000),
  targetCounter(
    'output_tokens',
    'Output tokens of complete streams of the target.',
    ({ outputTokens }) => outputTokens,
  ),
  targetCounter(
    'decode_seconds',
    'Sum of the times from the first token of complete streams of the target to their end.',
    ({ decodeMs }) => decodeMs / 1000,
  ),
  mirrorCounter('requests', 'Requests that were repeated, and their repetitions', ({ requests }) => requests),
  mirrorCounter('refused', 'Requests that were dropped or refused before an engine', ({ refused }) => refused),
  mirrorCounter('failed', 'Requests that failed at their engines', ({ failed }) => failed),
  mirrorCounter('first_tokens', 'Requests that got a first token', ({ firstTokens }) => firstTokens),
  mirrorCounter('ttft_seconds', 'Sum of the times to first token', ({ ttftMs }) => ttftMs / 1000),
  mirrorCounter('output_tokens', 'Output tokens of complete streams', ({ outputTokens }) => outputTokens),
  mirrorCounter(
    'decode_seconds',
    'Sum of the times from the first token of complete streams to their end',
    ({ decodeMs }) => decodeMs / 1000,
  ),
]
