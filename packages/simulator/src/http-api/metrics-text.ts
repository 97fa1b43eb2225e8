import type { EngineModel } from '../engine-model.ts'
import type { EngineSettings } from '../engine-options.ts'
import type { KvConnector } from '../kv-connector.ts'
import type { Histogram, ServingMetrics } from './serving-metrics.ts'

interface MetricsInput {
  readonly model: EngineModel
  readonly metrics: ServingMetrics
  readonly settings: EngineSettings
  /** 0: awake; else the sleep level. */
  readonly sleepLevel: number
  readonly kv: KvConnector | null
  /** Seconds since the epoch. */
  readonly startedAtS: number
}

/** Values by their labels in Prometheus text; '' for none. */
type Rows = Readonly<Record<string, number>>

/** Writes Prometheus text as vLLM's client library does: counters end in `_total` and have a `_created` twin. */
class MetricsWriter {
  readonly lines: string[] = []
  readonly #labels: string
  readonly #startedAtS: number

  constructor(labels: string, startedAtS: number) {
    this.#labels = labels
    this.#startedAtS = startedAtS
  }

  gauge(name: string, rows: Rows): void {
    this.#family(name, 'gauge')
    this.#samples(name, rows)
  }

  counter(name: string, rows: Rows): void {
    this.#family(`${name}_total`, 'counter')
    this.#samples(`${name}_total`, rows)
    this.#family(`${name}_created`, 'gauge')
    for (const extra of Object.keys(rows))
      this.lines.push(`vllm:${name}_created{${this.#with(extra)}} ${this.#startedAtS}`)
  }

  histogram({ name, bounds, counts, count, sum }: Histogram): void {
    this.#family(name, 'histogram')
    let total = 0
    bounds.forEach((bound, at) => {
      total += counts[at]!
      this.lines.push(`vllm:${name}_bucket{${this.#with(`le="${float(bound)}"`)}} ${float(total)}`)
    })
    this.lines.push(`vllm:${name}_bucket{${this.#with('le="+Inf"')}} ${float(count)}`)
    this.#samples(`${name}_count`, { '': count })
    this.#samples(`${name}_sum`, { '': sum })
    this.#family(`${name}_created`, 'gauge')
    this.lines.push(`vllm:${name}_created{${this.#labels}} ${this.#startedAtS}`)
  }

  /** Writes samples with explicit labels. */
  raw(name: string, type: string, samples: readonly string[]): void {
    this.#family(name, type)
    for (const sample of samples) this.lines.push(`vllm:${name}${sample}`)
  }

  #family(name: string, type: string): void {
    this.lines.push(`# HELP vllm:${name} ${name.replaceAll('_', ' ')}`, `# TYPE vllm:${name} ${type}`)
  }

  #samples(name: string, rows: Rows): void {
    for (const [extra, value] of Object.entries(rows))
      this.lines.push(`vllm:${name}{${this.#with(extra)}} ${float(value)}`)
  }

  #with(extra: string): string {
    return extra === '' ? this.#labels : `${this.#labels},${extra}`
  }
}

const float = (value: number): string => (Number.isInteger(value) ? `${value}.0` : String(value))

/** GET /metrics: Prometheus text with the names of vLLM 0.32. */
export function metricsText(input: MetricsInput): string {
  const { metrics, settings, startedAtS } = input
  const writer = new MetricsWriter(`engine="0",model_name="${settings.model}"`, startedAtS)
  writeLoad(writer, input)
  writeTokens(writer, input)
  writer.counter('request_success', byLabel('finished_reason', metrics.finished))
  writer.raw(
    'admission_rejections_total',
    'counter',
    Object.entries(metrics.rejections).map(
      ([reason, value]) => `{model_name="${settings.model}",reason="${reason}"} ${float(value)}`,
    ),
  )
  for (const histogram of metrics.histograms()) writer.histogram(histogram)
  writer.raw('cache_config_info', 'gauge', [cacheConfig(settings)])
  if (settings.adapters.length > 0) writer.raw('lora_requests_info', 'gauge', [adapterInfo(input)])
  return `${writer.lines.join('\n')}\n`
}

const byLabel = (label: string, values: Rows): Rows =>
  Object.fromEntries(Object.entries(values).map(([key, value]) => [`${label}="${key}"`, value]))

function writeLoad(writer: MetricsWriter, { model, sleepLevel }: MetricsInput): void {
  for (const name of ['estimated_flops_per_gpu', 'estimated_read_bytes_per_gpu', 'estimated_write_bytes_per_gpu'])
    writer.counter(name, { '': 0 })
  writer.gauge('num_requests_running', { '': model.running })
  writer.gauge('num_requests_waiting', { '': model.waiting })
  writer.gauge(
    'num_requests_waiting_by_reason',
    byLabel('reason', { capacity: model.waiting - model.transferring, deferred: model.transferring }),
  )
  const states = ['awake', 'weights_offloaded', 'discard_all']
  writer.gauge(
    'engine_sleep_state',
    byLabel('sleep_state', Object.fromEntries(states.map((state, level) => [state, level === sleepLevel ? 1 : 0]))),
  )
  writer.gauge('kv_cache_usage_perc', { '': model.usage })
}

function writeTokens(writer: MetricsWriter, { model, kv }: MetricsInput): void {
  const { counters } = model
  const { promptTokens, cachedTokens, fetchedTokens } = counters
  writer.counter('prefix_cache_queries', { '': promptTokens })
  writer.counter('prefix_cache_hits', { '': cachedTokens })
  writer.counter('external_prefix_cache_queries', { '': kv === null ? 0 : promptTokens - cachedTokens })
  writer.counter('external_prefix_cache_hits', { '': fetchedTokens })
  writer.counter('mm_cache_queries', { '': 0 })
  writer.counter('mm_cache_hits', { '': 0 })
  writer.counter('num_preemptions', { '': counters.preemptions })
  writer.counter('prompt_tokens', { '': promptTokens })
  writer.counter(
    'prompt_tokens_by_source',
    byLabel('source', {
      local_compute: promptTokens - cachedTokens - fetchedTokens,
      local_cache_hit: cachedTokens,
      external_kv_transfer: fetchedTokens,
    }),
  )
  writer.counter('prompt_tokens_cached', { '': cachedTokens })
  writer.counter(
    'prompt_tokens_cached_by_source',
    byLabel('source', { device: cachedTokens, host: 0, p2p: 0, disk: 0, external_unspecified: 0 }),
  )
  writer.counter('generation_tokens', { '': counters.outputTokens })
  if (kv === null) return
  writer.counter('nixl_num_notifications_after_expiry', { '': kv.lateReads })
  writer.counter('nixl_num_kv_expired_reqs', { '': counters.lapsedHolds })
}

/** Labels of vLLM's cache configuration that do not apply here. */
const NO_MEANING = [
  'cache_hit_alignment_tokens',
  'enable_mamba_shared_prefix_checkpoint',
  'kv_cache_dtype_skip_layers',
  'kv_cache_layout',
  'kv_cache_max_concurrency',
  'kv_cache_memory_bytes',
  'kv_offloading_backend',
  'kv_offloading_size',
  'kv_sharing_fast_prefill',
  'mamba_block_size',
  'mamba_cache_dtype',
  'mamba_cache_mode',
  'mamba_page_size_padded',
  'mamba_ssm_cache_dtype',
  'num_cpu_blocks',
  'num_gpu_blocks_override',
  'prefix_cache_retention_interval',
  'prefix_match_unit',
  'replayssm_buffer_len',
  'skip_page_size_padded',
  'sliding_window',
  'swa_bounded_replay',
  'use_kda_recoverssm',
  'use_replayssm',
]

function cacheConfig({ limits, prefixCaching }: EngineSettings): string {
  const { blockTokens, cacheBlocks } = limits
  const info: Record<string, string | number> = {
    _block_size_resolved: 'True',
    block_size: blockTokens,
    cache_dtype: 'auto',
    effective_attention_block_size: blockTokens,
    enable_prefix_caching: prefixCaching ? 'True' : 'False',
    engine: 0,
    gpu_memory_utilization: 0.9,
    hash_block_size: blockTokens,
    is_attention_free: 'False',
    kv_cache_size_tokens: blockTokens * cacheBlocks,
    num_gpu_blocks: cacheBlocks,
    prefix_caching_hash_algo: 'sha256_cbor',
    user_specified_block_size: 'True',
    ...Object.fromEntries(NO_MEANING.map((key) => [key, 'None'])),
  }
  const labels = Object.entries(info).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${labels.map(([key, value]) => `${key}="${value}"`).join(',')}} 1.0`
}

/** Running adapters are not tracked: all loaded adapters count as running. */
const adapterInfo = ({ settings, startedAtS }: MetricsInput): string =>
  `{max_lora="${settings.adapters.length}",running_lora_adapters="${settings.adapters.join(',')}",` +
  `waiting_lora_adapters=""} ${startedAtS}`
