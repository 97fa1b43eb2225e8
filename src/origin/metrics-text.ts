/** Reads the gauges that the gateway needs from an engine's `/metrics` (Prometheus text format 0.0.4). */
import type { EngineStats } from '../core/contract/engine-signal.ts'
import { type CacheValue, ENGINE_METRICS, type EngineKind, type EngineMetrics } from './engine-metrics.ts'
import { namesPattern, type Sample, samplesOf } from './prometheus-samples.ts'

export interface EngineScrape {
  readonly kind: EngineKind
  readonly stats: EngineStats
  /** The engine sleeps (`/sleep`): its health check succeeds, and requests hang. */
  readonly asleep: boolean
}

type Samples = ReadonlyMap<string, readonly Sample[]>

const METRIC_NAMES = namesPattern([
  ...ENGINE_METRICS.flatMap(({ running, waiting, kvUsage, blockTokens, cacheBlocks }) => [
    ...running,
    ...waiting,
    ...kvUsage,
    ...[...blockTokens, ...cacheBlocks].map(({ metric }) => metric),
  ]),
  'vllm:engine_sleep_state',
  'vllm:lora_requests_info',
])

/**
 * Reads an engine's metrics. null: the text has no queue gauge, so it is not from an engine. Data-parallel ranks
 * behind one address count as one engine.
 */
export function readEngineMetrics(text: string): EngineScrape | null {
  const samples = samplesOf(text, METRIC_NAMES)
  const names = ENGINE_METRICS.find(({ running }) => running.some((name) => samples.has(name)))
  if (names === undefined) return null
  const usage = gaugesOf(samples, names.kvUsage)
  const configs = samples.get('vllm:cache_config_info') ?? []
  const awake =
    samples.get('vllm:engine_sleep_state')?.filter(({ labels }) => labels.get('sleep_state') === 'awake') ?? []
  return {
    kind: names.kind,
    asleep: awake.length > 0 && awake.every(({ value }) => value === 0),
    stats: {
      running: sum(gaugesOf(samples, names.running)),
      waiting: sum(gaugesOf(samples, names.waiting)),
      kvUsage: usage.length === 0 ? null : sum(usage) / usage.length,
      blockTokens: numbersOf(samples, names.blockTokens)[0] ?? null,
      cacheBlocks: cacheBlocksOf(samples, names),
      prefixCaching: parseBoolean(configs[0]?.labels.get('enable_prefix_caching')),
      adapters: adaptersOf(samples.get('vllm:lora_requests_info') ?? []),
    },
  }
}

/**
 * Values of the first metric that is present. SGLang's tensor-parallel and pipeline-parallel ranks can each export the
 * values of their data-parallel rank, which count once.
 */
function gaugesOf(samples: Samples, names: readonly string[]): number[] {
  const found = names.map((name) => samples.get(name)).find((one) => one !== undefined) ?? []
  const isRanked = found.some(({ labels }) => labels.has('tp_rank') || labels.has('pp_rank'))
  if (!isRanked) return found.map(({ value }) => value)
  const byRank = new Map<string, number>()
  for (const { labels, value } of found) {
    const rank = `${labels.get('engine_type') ?? ''} ${labels.get('dp_rank') ?? ''}`
    byRank.set(rank, Math.max(byRank.get(rank) ?? 0, value))
  }
  return [...byRank.values()]
}

/** Whole numbers of metrics or labels, one for each rank. */
function numbersOf(samples: Samples, values: readonly CacheValue[]): number[] {
  return values.flatMap(({ metric, label }) =>
    (samples.get(metric) ?? []).flatMap(({ labels, value }) => {
      const number = label === undefined ? parseWhole(String(value)) : parseWhole(labels.get(label))
      return number === null || number === 0 ? [] : [number]
    }),
  )
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

/**
 * Models with several kinds of attention hold fewer tokens than their blocks suggest; vLLM's own token count takes
 * precedence.
 */
function cacheBlocksOf(samples: Samples, { kind, cacheBlocks }: EngineMetrics): number | null {
  const blocks =
    kind === 'vllm'
      ? (samples.get('vllm:cache_config_info') ?? []).flatMap(({ labels }) => blocksOf(labels) ?? [])
      : numbersOf(samples, cacheBlocks)
  return blocks.length === 0 ? null : sum(blocks)
}

function blocksOf(labels: Sample['labels']): number | null {
  const [tokens, blockTokens] = [parseWhole(labels.get('kv_cache_size_tokens')), parseWhole(labels.get('block_size'))]
  return tokens && blockTokens ? Math.floor(tokens / blockTokens) : parseWhole(labels.get('num_gpu_blocks'))
}

/** Each change of the set of adapters leaves a series behind. Its value is the time, so the greatest is current. */
function adaptersOf(samples: readonly Sample[]): EngineStats['adapters'] {
  if (samples.length === 0) return null
  const { labels } = samples.reduce((latest, sample) => (sample.value >= latest.value ? sample : latest))
  const running = (labels.get('running_lora_adapters') ?? '').split(',').map((name) => name.trim())
  return { running: running.filter((name) => name !== ''), max: parseWhole(labels.get('max_lora')) }
}

function parseWhole(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null
}

/** Parses a boolean in Python's spelling. */
function parseBoolean(text: string | undefined): boolean | null {
  if (text === 'True' || text === 'true') return true
  return text === 'False' || text === 'false' ? false : null
}
