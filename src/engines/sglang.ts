/** SGLang. Source: SGLang 0.5.23 (paths below `sglang/srt/`). Not run: it needs a GPU. */
import { isJsonObject } from '../core/json.ts'
import { answersBy, type TextRule } from './answer-meaning.ts'
import { PLAIN, VERSION_PATTERN, numberIn, type EngineType, type RankLoad } from './engine-type.ts'
import type { LoadMetrics, WorkCounter } from './load-metrics.ts'
import { capacityFromModels } from './model-list.ts'
import { FULL, PROXY_TEXTS, UNKNOWN_NAME } from './proxy-answers.ts'

/** Both spellings of a metric: with `:` and, behind some collectors, with `_`. */
const spelled = (name: string): readonly string[] => [`sglang:${name}`, `sglang_${name}`]
const label = (name: string) => spelled('cache_config_info').map((metric) => ({ metric, label: name }))

const METRICS: LoadMetrics = {
  running: spelled('num_running_reqs'),
  waiting: spelled('num_queue_reqs'),
  kvUsage: spelled('token_usage'),
  blockTokens: label('page_size'),
  cacheBlocks: label('num_pages'),
  cacheBlocksOfAllRanks: false,
  cacheTokens: [],
  prefixCaching: null,
  // observability/metrics_collector.py:1391.
  rankLabel: 'dp_rank',
  repeatedBy: ['tp_rank', 'pp_rank'],
  completed: spelled('num_requests_total'),
  // Computed prompt tokens are counted with each batch, `decode` with every 40th step (`--decode-log-interval`).
  work: [
    ...spelled('realtime_tokens_total').flatMap((metric): readonly WorkCounter[] => [
      { metric, only: { label: 'mode', value: 'prefill_compute' }, grows: 'prefill' },
      { metric, only: { label: 'mode', value: 'decode' } },
    ]),
    ...spelled('generation_tokens_total').map((metric) => ({ metric })),
  ],
  awake: null,
  adapters: null,
}

export const SGLANG_TEXTS: readonly TextRule[] = [
  // managers/scheduler.py:3553-3600. `--max-queued-requests` is per scheduler, so one rank is full.
  { statuses: FULL, pattern: /^The request queue is full\./, means: 'busy_rank' },
  { statuses: FULL, pattern: /^Request waiting timeout reached\./, means: 'busy_rank' },
  { statuses: FULL, pattern: /aborted by a higher priority request/, means: 'busy_rank' },
  // A 503 about the request: its priority is refused.
  { statuses: [503], pattern: /^Using priority is disabled for this server\./, means: 'client' },
  // managers/tokenizer_manager.py:3758-3775, lora/lora_registry.py:139.
  {
    statuses: UNKNOWN_NAME,
    pattern: /^Got LoRA adapter that has never been loaded: (?<name>[^\s,]+)/,
    means: 'lacks_adapter',
  },
  {
    statuses: UNKNOWN_NAME,
    pattern: /^The following requested LoRA adapters are not loaded: [{['"]*(?<name>[^\s,'"\]}]+)/,
    means: 'lacks_adapter',
  },
]

export const SGLANG_TOO_LONG = [
  /^The input \(\d+ tokens\) is longer than the model's context length \((?<limit>\d+) tokens\)/,
  /^Requested token count .*exceeds .*?(?<limit>\d+) tokens?/,
  /^Requested token count .*exceeds/,
] as const

/** entrypoints/v1_loads.py, managers/load_snapshot.py:196-215. */
function readLoads(json: unknown): readonly RankLoad[] {
  const list = isJsonObject(json) ? json['loads'] : json
  if (!Array.isArray(list)) return []
  return list.filter(isJsonObject).flatMap((one) => {
    const [rank, running, waiting] = ['dp_rank', 'num_running_reqs', 'num_waiting_reqs'].map((name) =>
      numberIn(one, name),
    )
    if (rank == null || running == null || waiting == null) return []
    return [
      {
        rank,
        running,
        waiting,
        queuedPrefillTokens: numberIn(one, 'num_waiting_uncached_tokens'),
        cacheTokens: numberIn(one, 'max_total_num_tokens'),
        kvUsage: numberIn(one, 'token_usage'),
      },
    ]
  })
}

function weightVersion(text: string): string | null {
  const match = /"weight_version": ?("[^"\\]{1,200}"|-?\d{1,20})/.exec(text)
  return match === null ? null : match[1]!
}

export const sglang: EngineType = {
  ...PLAIN,
  name: 'sglang',
  title: 'SGLang',
  detection: {
    metrics: ['sglang:', 'sglang_'],
    owners: ['sglang'],
    server: null,
    routes: [{ path: '/server_info', body: /"(?:dp_size|mem_fraction_static)":/ }],
  },
  health: [
    // Answers at once and is 503 while generation is paused. Older versions have no such route (404).
    { path: '/ready', limitMs: 5_000, everyMs: null, badFrom: 500 },
    // Runs a token by default and takes 1 to 20 s (environ.py:344, entrypoints/http_server.py:218, 745-799).
    { path: '/health', limitMs: 25_000, everyMs: 30_000, badFrom: 500 },
  ],
  version: { path: '/server_info', pattern: VERSION_PATTERN },
  load: {
    paths: ['/metrics'],
    metrics: METRICS,
    ranksRoute: { path: '/v1/loads?include=core', read: readLoads },
    enabledBy: '--enable-metrics',
  },
  ranks: {
    header: 'x-data-parallel-rank',
    numbering: 'local',
    outOfRange: /routed_dp_rank=\d+ out of range/,
    connected: null,
  },
  capacity: { path: '/v1/models', read: capacityFromModels },
  answerOf: answersBy({
    texts: [...SGLANG_TEXTS, ...PROXY_TEXTS],
    tooLong: SGLANG_TOO_LONG,
    tooManyRequests: 'busy',
  }),
  // openai/serving_base.py `_parse_model_parameter`: a name without `base:` gets the base model's answer.
  checksModel: false,
  adapters: {
    nameFor: (base, adapter) => `${base}:${adapter}`,
    load: (adapter, path) => ({ path: '/load_lora_adapter', body: { lora_name: adapter, lora_path: path } }),
    unload: (adapter) => ({ path: '/unload_lora_adapter', body: { lora_name: adapter } }),
  },
  sleep: {
    states: [],
    sleep: { path: '/release_memory_occupation' },
    wake: { path: '/resume_memory_occupation' },
    // Nothing of the gateway runs when it has waited. Requests of others go on afterwards.
    pause: (mode) => ({
      path: '/pause_generation',
      body: { mode: { wait: 'retract', abort: 'abort', keep: 'in_place' }[mode] },
    }),
    resume: { path: '/continue_generation' },
    dropsCache: true,
    weights: { path: '/model_info', read: weightVersion },
    enabledBy: '--enable-memory-saver for sleep',
  },
  deniedFields: [
    'bootstrap_host',
    'bootstrap_port',
    'bootstrap_room',
    'bootstrap_pair_key',
    'routed_dp_rank',
    'data_parallel_rank',
    'disagg_prefill_dp_rank',
    'lora_path',
    'session_params',
    'custom_logit_processor',
  ],
  // entrypoints/request_headers.py:10-19.
  privateHeaders: [
    'x-data-parallel-rank',
    'x-override-bootstrap-host',
    'x-override-bootstrap-port',
    'x-override-bootstrap-room',
    'x-override-routed-dp-rank',
    'x-override-disagg-prefill-dp-rank',
    'x-override-priority',
    'x-override-rid',
  ],
}
