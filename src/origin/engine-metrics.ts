/**
 * Names of the load metrics of each kind of engine. docs/engines.md lists the sources and how each was tested.
 */

/** Servers whose load the gateway reads. Ollama has no metrics. */
export type EngineKind = 'vllm' | 'sglang' | 'tensorrt-llm' | 'llama.cpp' | 'tgi'

/** A value of a metric, or of one of its labels. */
export interface CacheValue {
  readonly metric: string
  readonly label?: string
}

export interface EngineMetrics {
  readonly kind: EngineKind
  /** Name for people. */
  readonly title: string
  /** Requests in the running batch. Its presence identifies the kind of engine. */
  readonly running: readonly string[]
  /** Requests that wait for a place in the batch. */
  readonly waiting: readonly string[]
  /** Share of the KV cache in use, 0 to 1. Several names: of different versions. */
  readonly kvUsage: readonly string[]
  /** Tokens of one block of the KV cache. */
  readonly blockTokens: readonly CacheValue[]
  /** Number of blocks of the KV cache. */
  readonly cacheBlocks: readonly CacheValue[]
  /** Flag that exports these metrics; null: they are always exported. */
  readonly enabledBy: string | null
}

const ofLabel = (metric: string, label: string): CacheValue => ({ metric, label })

export const ENGINE_METRICS: readonly EngineMetrics[] = [
  {
    kind: 'vllm',
    title: 'vLLM',
    running: ['vllm:num_requests_running'],
    waiting: ['vllm:num_requests_waiting'],
    // The second name was used before vLLM 0.9.
    kvUsage: ['vllm:kv_cache_usage_perc', 'vllm:gpu_cache_usage_perc'],
    blockTokens: [ofLabel('vllm:cache_config_info', 'block_size')],
    cacheBlocks: [ofLabel('vllm:cache_config_info', 'num_gpu_blocks')],
    enabledBy: null,
  },
  {
    kind: 'sglang',
    title: 'SGLang',
    running: ['sglang:num_running_reqs', 'sglang_num_running_reqs'],
    waiting: ['sglang:num_queue_reqs', 'sglang_num_queue_reqs'],
    kvUsage: ['sglang:token_usage', 'sglang_token_usage'],
    blockTokens: [ofLabel('sglang:cache_config_info', 'page_size'), ofLabel('sglang_cache_config_info', 'page_size')],
    cacheBlocks: [ofLabel('sglang:cache_config_info', 'num_pages'), ofLabel('sglang_cache_config_info', 'num_pages')],
    enabledBy: '--enable-metrics',
  },
  {
    kind: 'tensorrt-llm',
    title: 'TensorRT-LLM',
    running: ['trtllm_num_requests_running'],
    waiting: ['trtllm_num_requests_waiting'],
    kvUsage: ['trtllm_kv_cache_utilization'],
    blockTokens: [{ metric: 'trtllm_kv_cache_tokens_per_block' }],
    cacheBlocks: [{ metric: 'trtllm_kv_cache_max_blocks' }],
    enabledBy: 'return_perf_metrics: true',
  },
  {
    kind: 'llama.cpp',
    title: 'llama.cpp',
    running: ['llamacpp:requests_processing'],
    waiting: ['llamacpp:requests_deferred'],
    // Removed from current builds: each slot has a cache of its own.
    kvUsage: ['llamacpp:kv_cache_usage_ratio'],
    blockTokens: [],
    cacheBlocks: [],
    enabledBy: '--metrics',
  },
  {
    kind: 'tgi',
    title: 'TGI',
    running: ['tgi_batch_current_size'],
    waiting: ['tgi_queue_size'],
    kvUsage: [],
    blockTokens: [],
    cacheBlocks: [],
    enabledBy: null,
  },
]

/**
 * Path of Prometheus metrics of `trtllm-serve`, whose `/metrics` is JSON that each reader removes from the server.
 */
export const SECOND_METRICS_PATH = '/prometheus/metrics'
