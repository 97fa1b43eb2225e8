/**
 * vLLM. Sources: vLLM 0.33.0 (paths below `vllm/`), real servers of version 0.32 (test/vectors).
 */
import { answersBy, type TextRule } from './answer-meaning.ts'
import { ADDABLE_FIELDS, PLAIN, VERSION_PATTERN, type EngineType } from './engine-type.ts'
import type { LoadMetrics } from './load-metrics.ts'
import { capacityFromModels } from './model-list.ts'
import { FULL, PROXY_TEXTS, UNKNOWN_NAME } from './proxy-answers.ts'
import { callForChat, callsForTexts, idsInTokens, textIn } from './tokenize-bodies.ts'

const METRICS: LoadMetrics = {
  running: ['vllm:num_requests_running'],
  waiting: ['vllm:num_requests_waiting'],
  // The second name was used before vLLM 0.9.
  kvUsage: ['vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc'],
  blockTokens: [{ metric: 'vllm:cache_config_info', label: 'block_size' }],
  cacheBlocks: [{ metric: 'vllm:cache_config_info', label: 'num_gpu_blocks' }],
  // v1/engine/core_client.py:875-888. Measured with two ranks on 0.32: 65,536 for each of two that have 32,768.
  cacheBlocksOfAllRanks: true,
  cacheTokens: [{ metric: 'vllm:cache_config_info', label: 'kv_cache_size_tokens' }],
  prefixCaching: { metric: 'vllm:cache_config_info', label: 'enable_prefix_caching' },
  rankLabel: 'engine',
  repeatedBy: [],
  completed: ['vllm:request_success_total'],
  // v1/engine/async_llm.py:883: all stand still during a step that only prefills.
  work: [
    { metric: 'vllm:generation_tokens_total', grows: 'live' },
    { metric: 'vllm:iteration_tokens_total_count', grows: 'live' },
    { metric: 'vllm:prompt_tokens_total' },
  ],
  awake: { metric: 'vllm:engine_sleep_state', label: 'sleep_state', value: 'awake' },
  adapters: { metric: 'vllm:lora_requests_info', running: 'running_lora_adapters', max: 'max_lora' },
}

export const VLLM_TEXTS: readonly TextRule[] = [
  // exceptions.py:168-189: `--max-num-queued-reqs` and `--max-num-queued-tokens`, both per server.
  { statuses: FULL, pattern: /currently busy/, means: 'busy' },
  { statuses: FULL, pattern: /prefill token backlog limit/, means: 'busy' },
  // v1/engine/core.py:1796-1816 and serve/elastic_ep/middleware.py.
  { statuses: [503], pattern: /^Generation is paused\./, means: 'away' },
  { statuses: [503], pattern: /^The model is currently scaling\./, means: 'away' },
  { statuses: [503], pattern: /^This data-parallel rank has been retired/, means: 'away' },
  // entrypoints/openai/models/serving.py:300-366.
  { statuses: UNKNOWN_NAME, pattern: /^The model `(?<name>.+?)` does not exist\./, means: 'lacks_model' },
  {
    statuses: UNKNOWN_NAME,
    pattern: /^LoRA adapter '(?<name>.+?)' was found but could not be loaded\./,
    means: 'lacks_adapter',
  },
  // A server for another task: 400 in older versions, 501 in newer ones.
  { statuses: [400, 404, 501], pattern: /^The model does not support .+ API$/, means: 'lacks_route' },
]

export const VLLM_TOO_LONG = [/^This model's maximum context length is (?<limit>\d+) tokens\./] as const

function weightVersion(text: string): string | null {
  const version = text.trim().slice(0, MAX_VERSION_CHARS)
  return /^(?:|\{\}|null)$/.test(version) ? null : version
}

const MAX_VERSION_CHARS = 1000

export const vllm: EngineType = {
  ...PLAIN,
  name: 'vllm',
  title: 'vLLM',
  detection: { metrics: ['vllm:'], owners: ['vllm'], server: null, routes: [] },
  version: { path: '/version', pattern: VERSION_PATTERN },
  load: { paths: ['/metrics'], metrics: METRICS, ranksRoute: null, enabledBy: null },
  ranks: {
    header: 'x-data-parallel-rank',
    // The Rust frontend counts globally and lists the ranks that it knows.
    numbering: 'local',
    outOfRange: /data_parallel_rank \d+ is out of range/,
    connected: /connected_ranks/,
  },
  capacity: { path: '/v1/models', read: capacityFromModels },
  answerOf: answersBy({
    texts: [...VLLM_TEXTS, ...PROXY_TEXTS],
    tooLong: VLLM_TOO_LONG,
    tooManyRequests: 'busy',
  }),
  adapters: {
    nameFor: (_, adapter) => adapter,
    load: (adapter, path) => ({ path: '/v1/load_lora_adapter', body: { lora_name: adapter, lora_path: path } }),
    unload: (adapter) => ({ path: '/v1/unload_lora_adapter', body: { lora_name: adapter } }),
  },
  tokenize: {
    calls: (prompt, model) =>
      callForChat(prompt, '/tokenize', (chat) => ({ model, ...chat })) ??
      callsForTexts(prompt, '/tokenize', (text, special) => ({ model, prompt: text, add_special_tokens: special })),
    ids: idsInTokens,
    detokenize: {
      path: '/detokenize',
      body: (ids, model) => JSON.stringify({ model, tokens: Array.from(ids) }),
      text: textIn('prompt'),
    },
  },
  sleep: {
    states: [
      { path: '/is_sleeping', field: 'is_sleeping', means: 'asleep' },
      { path: '/is_paused', field: 'is_paused', means: 'paused' },
    ],
    // Level 1 keeps the weights in the memory of the host.
    sleep: { path: '/sleep?level=1&mode=wait' },
    wake: { path: '/wake_up' },
    // The cache is cleared unless requests stay in it.
    pause: (mode) => ({ path: `/pause?mode=${mode}&clear_cache=${mode !== 'keep'}` }),
    resume: { path: '/resume' },
    dropsCache: true,
    // Its fields were not verified, so the whole answer is the version.
    weights: { path: '/weight_info', read: weightVersion },
    enabledBy: 'VLLM_SERVER_DEV_MODE=1; sleep also needs --enable-sleep-mode',
  },
  addable: ADDABLE_FIELDS,
  // A body with `do_remote_prefill` ends the process of a NIXL engine; `vllm_xargs` is merged into the same fields.
  removedFields: [
    'kv_transfer_params',
    'ec_transfer_params',
    'vllm_xargs.kv_transfer_params',
    'vllm_xargs.ec_transfer_params',
  ],
  privateHeaders: [
    'x-data-parallel-rank',
    // entrypoints/generate/base/serving.py:41-42.
    'x-vllm-priority',
    // llm-d's sidecar in front of an engine sends the request, or its prefill, to the host that they name.
    'x-data-parallel-host-port',
    'x-prefiller-host-port',
    'x-prefiller-url',
    'x-encoder-hosts-ports',
  ],
}
