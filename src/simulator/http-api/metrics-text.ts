import type { EngineModel } from '../engine-model.ts'
import type { EngineSettings } from '../engine-options.ts'
import type { KvConnector } from '../kv-connector.ts'
import type { Sequence } from '../sequence.ts'
import type { Choice } from './generation.ts'

const SECONDS = [
  0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
]
const LONG_SECONDS = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680]
const TOKEN_SECONDS = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80]
const STEP_TOKENS = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384]

/** Bucket bounds 1, 2, 5, 10, … up to the maximum context. */
function tokenBounds(maxModelLen: number): number[] {
  const bounds: number[] = []
  for (let decade = 1; decade <= maxModelLen; decade *= 10) {
    for (const step of [1, 2, 5]) if (step * decade <= maxModelLen) bounds.push(step * decade)
  }
  return bounds
}

/** Counts per bucket, not cumulative. */
export class Histogram {
  readonly name: string
  readonly bounds: readonly number[]
  readonly counts: Float64Array
  sum = 0
  count = 0

  constructor(name: string, bounds: readonly number[]) {
    this.name = name
    this.bounds = bounds
    this.counts = new Float64Array(bounds.length)
  }

  record(value: number): void {
    this.sum += value
    this.count += 1
    for (let at = 0; at < this.bounds.length; at += 1) {
      if (value <= this.bounds[at]!) {
        this.counts[at]! += 1
        return
      }
    }
  }
}

/** What vLLM measures per request, under its own names and in its order. */
export class ServingMetrics {
  readonly rejections = { max_num_queued_reqs: 0, max_num_queued_tokens: 0 }
  readonly finished = { stop: 0, length: 0, abort: 0, error: 0, repetition: 0 }
  readonly promptTokens: Histogram
  readonly outputTokens: Histogram
  readonly stepTokens = new Histogram('iteration_tokens_total', STEP_TOKENS)
  readonly longestOutput: Histogram
  readonly choices = new Histogram('request_params_n', [1, 2, 5, 10, 20])
  readonly maxTokens: Histogram
  readonly ttft = new Histogram('time_to_first_token_seconds', SECONDS)
  readonly interToken = new Histogram('inter_token_latency_seconds', TOKEN_SECONDS)
  readonly perToken = new Histogram('request_time_per_output_token_seconds', TOKEN_SECONDS)
  readonly endToEnd = new Histogram('e2e_request_latency_seconds', LONG_SECONDS)
  readonly queue = new Histogram('request_queue_time_seconds', LONG_SECONDS)
  readonly inference = new Histogram('request_inference_time_seconds', LONG_SECONDS)
  readonly prefill = new Histogram('request_prefill_time_seconds', LONG_SECONDS)
  readonly decode = new Histogram('request_decode_time_seconds', LONG_SECONDS)
  readonly preemptions = new Histogram('request_num_preemptions', [1, 2, 3, 4, 5, 10, 20])
  readonly computedTokens: Histogram

  constructor(maxModelLen: number) {
    const bounds = tokenBounds(maxModelLen)
    this.promptTokens = new Histogram('request_prompt_tokens', bounds)
    this.outputTokens = new Histogram('request_generation_tokens', bounds)
    this.longestOutput = new Histogram('request_max_num_generation_tokens', bounds)
    this.maxTokens = new Histogram('request_params_max_tokens', bounds)
    this.computedTokens = new Histogram('request_prefill_kv_computed_tokens', bounds)
  }

  histograms(): readonly Histogram[] {
    return Object.values(this).filter((value): value is Histogram => value instanceof Histogram)
  }

  rejected(reason: 'max_num_queued_reqs' | 'max_num_queued_tokens'): void {
    this.rejections[reason] += 1
  }

  /** Records a finished request. An aborted one is not counted, as observed on a real server. */
  ended(choices: readonly Choice[], sequences: readonly Sequence[], maxTokens: number | null): void {
    if (sequences.some(({ state }) => state !== 'complete')) return
    sequences.forEach((sequence, at) => {
      this.finished[choices[at]!.plan.finish === 'length' ? 'length' : 'stop'] += 1
      this.#measure(sequence)
      this.choices.record(choices.length)
      if (maxTokens !== null) this.maxTokens.record(maxTokens)
    })
    this.longestOutput.record(Math.max(...sequences.map(({ outputs }) => outputs)))
  }

  #measure(sequence: Sequence): void {
    const decodeS = (sequence.lastTokenAt - sequence.firstTokenAt) / 1000
    this.promptTokens.record(sequence.spec.promptTokens)
    this.outputTokens.record(sequence.outputs)
    this.ttft.record((sequence.firstTokenAt - sequence.arrivedAt) / 1000)
    if (sequence.outputs > 1) this.perToken.record(decodeS / (sequence.outputs - 1))
    this.endToEnd.record((sequence.endedAt - sequence.arrivedAt) / 1000)
    this.queue.record((sequence.scheduledAt - sequence.arrivedAt) / 1000)
    this.inference.record((sequence.endedAt - sequence.scheduledAt) / 1000)
    this.prefill.record((sequence.firstTokenAt - sequence.scheduledAt) / 1000)
    this.decode.record(decodeS)
    this.preemptions.record(sequence.preemptions)
    this.computedTokens.record(sequence.spec.promptTokens - sequence.cachedTokens)
  }
}

export interface MetricsInput {
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
