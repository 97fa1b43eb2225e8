import type { EngineModel } from '../engine-model.ts'
import type { KvPeer } from '../kv-peer.ts'
import type { Histogram, ServingMetrics } from './serving-metrics.ts'

export interface MetricsInput {
  readonly model: EngineModel
  readonly metrics: ServingMetrics
  readonly modelName: string
  /** 0: awake; else the level of sleep. */
  readonly sleepLevel: number
  readonly prefixCaching: boolean
  readonly kv: KvPeer | null
  readonly adapters: readonly string[]
  readonly maxAdapters: number
  /** Seconds since the epoch. */
  readonly startedAtS: number
}

/** GET /metrics: Prometheus text under vLLM 0.32's names, with the `*_created` twins that its client library adds. */
export function metricsText(input: MetricsInput): string {
  const { model, metrics } = input
  const { counters } = model
  const labels = `engine="0",model_name="${input.modelName}"`
  const out: string[] = []
  const gauge = (name: string, help: string, value: number, extra = ''): void => {
    out.push(`# HELP vllm:${name} ${help}`, `# TYPE vllm:${name} gauge`, `vllm:${name}{${labels}${extra}} ${float(value)}`)
  }
  const counter = (name: string, help: string, rows: readonly (readonly [string, number])[]): void => {
    out.push(`# HELP vllm:${name}_total ${help}`, `# TYPE vllm:${name}_total counter`)
    for (const [extra, value] of rows) out.push(`vllm:${name}_total{${labels}${extra}} ${float(value)}`)
    out.push(`# HELP vllm:${name}_created ${help}`, `# TYPE vllm:${name}_created gauge`)
    for (const [extra] of rows) out.push(`vllm:${name}_created{${labels}${extra}} ${input.startedAtS}`)
  }
  gauge('num_requests_running', 'Number of requests in model execution batches.', model.running)
  gauge('num_requests_waiting', 'Number of requests waiting to be processed.', model.waiting)
  out.push(...byReason(labels, model))
  out.push(...sleepStates(labels, input.sleepLevel))
  gauge('kv_cache_usage_perc', 'KV-cache usage. 1 means 100 percent usage.', model.usage)
  counter('prefix_cache_queries', 'Prefix cache queries, in terms of number of queried tokens.', [['', counters.promptTokens]])
  counter('prefix_cache_hits', 'Prefix cache hits, in terms of number of cached tokens.', [['', counters.cachedTokens]])
  counter('num_preemptions', 'Cumulative number of preemption from the engine.', [['', counters.preemptions]])
  counter('prompt_tokens', 'Number of prefill tokens processed.', [['', counters.promptTokens]])
  counter('prompt_tokens_by_source', 'Number of prompt tokens by source.', [
    [',source="local_compute"', counters.promptTokens - counters.cachedTokens - counters.fetchedTokens],
    [',source="local_cache_hit"', counters.cachedTokens],
    [',source="external_kv_transfer"', counters.fetchedTokens],
  ])
  counter('prompt_tokens_cached', 'Number of cached prompt tokens.', [['', counters.cachedTokens]])
  counter('generation_tokens', 'Number of generation tokens processed.', [['', counters.outputTokens]])
  counter('request_success', 'Count of successfully processed requests.', Object.entries(metrics.finished).map(([reason, value]) => [`,finished_reason="${reason}"`, value]))
  if (input.kv !== null) {
    counter('nixl_num_notifications_after_expiry', 'Number of notifications for blocks that had expired.', [['', input.kv.lateReads]])
    counter('nixl_num_kv_expired_reqs', 'Number of requests whose KV expired unread.', [['', counters.lapsedHolds]])
  }
  for (const histogram of metrics.histograms()) out.push(...histogramLines(labels, histogram, input.startedAtS))
  out.push(...cacheConfig(input), ...adapterInfo(input), ...rejections(input))
  return `${out.join('\n')}\n`
}

const float = (value: number): string => (Number.isInteger(value) ? `${value}.0` : String(value))

const byReason = (labels: string, model: EngineModel): string[] => [
  '# HELP vllm:num_requests_waiting_by_reason Number of waiting requests by reason.',
  '# TYPE vllm:num_requests_waiting_by_reason gauge',
  `vllm:num_requests_waiting_by_reason{${labels},reason="capacity"} ${float(model.waiting - model.transferring)}`,
  `vllm:num_requests_waiting_by_reason{${labels},reason="deferred"} ${float(model.transferring)}`,
]

const sleepStates = (labels: string, level: number): string[] => [
  '# HELP vllm:engine_sleep_state Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake.',
  '# TYPE vllm:engine_sleep_state gauge',
  `vllm:engine_sleep_state{${labels},sleep_state="awake"} ${level === 0 ? '1.0' : '0.0'}`,
  `vllm:engine_sleep_state{${labels},sleep_state="weights_offloaded"} ${level === 1 ? '1.0' : '0.0'}`,
  `vllm:engine_sleep_state{${labels},sleep_state="discard_all"} ${level === 2 ? '1.0' : '0.0'}`,
]

function histogramLines(labels: string, histogram: Histogram, startedAtS: number): string[] {
  const name = `vllm:${histogram.name}`
  const lines = [`# HELP ${name} Histogram of ${histogram.name.replaceAll('_', ' ')}.`, `# TYPE ${name} histogram`]
  let total = 0
  histogram.bounds.forEach((bound, at) => {
    total += histogram.counts[at]!
    lines.push(`${name}_bucket{${labels},le="${float(bound)}"} ${float(total)}`)
  })
  lines.push(
    `${name}_bucket{${labels},le="+Inf"} ${float(histogram.count)}`,
    `${name}_count{${labels}} ${float(histogram.count)}`,
    `${name}_sum{${labels}} ${float(histogram.sum)}`,
    `# HELP ${name}_created Histogram of ${histogram.name.replaceAll('_', ' ')}.`,
    `# TYPE ${name}_created gauge`,
    `${name}_created{${labels}} ${startedAtS}`,
  )
  return lines
}

function cacheConfig({ model, prefixCaching }: MetricsInput): string[] {
  const { blockTokens, cacheBlocks } = model.limits
  const info = {
    block_size: blockTokens,
    cache_dtype: 'auto',
    enable_prefix_caching: prefixCaching ? 'True' : 'False',
    engine: 0,
    gpu_memory_utilization: 0.9,
    kv_cache_size_tokens: blockTokens * cacheBlocks,
    num_cpu_blocks: 'None',
    num_gpu_blocks: cacheBlocks,
    num_gpu_blocks_override: 'None',
    prefix_caching_hash_algo: 'sha256_cbor',
    sliding_window: 'None',
  }
  const labels = Object.entries(info).map(([key, value]) => `${key}="${value}"`)
  return [
    '# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig',
    '# TYPE vllm:cache_config_info gauge',
    `vllm:cache_config_info{${labels.join(',')}} 1.0`,
  ]
}

function adapterInfo({ adapters, maxAdapters, startedAtS }: MetricsInput): string[] {
  if (maxAdapters === 0) return []
  return [
    '# HELP vllm:lora_requests_info Running stats on lora requests.',
    '# TYPE vllm:lora_requests_info gauge',
    `vllm:lora_requests_info{max_lora="${maxAdapters}",running_lora_adapters="${adapters.join(',')}",waiting_lora_adapters=""} ${startedAtS}`,
  ]
}

function rejections({ metrics, modelName }: MetricsInput): string[] {
  const name = 'vllm:admission_rejections_total'
  return [
    `# HELP ${name} Number of requests rejected by admission control.`,
    `# TYPE ${name} counter`,
    ...Object.entries(metrics.rejections).map(([reason, value]) => `${name}{model_name="${modelName}",reason="${reason}"} ${float(value)}`),
  ]
}
