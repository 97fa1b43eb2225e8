/** Reads the gauges that the gateway needs from an engine's `/metrics` (Prometheus text format 0.0.4). */
import type { EngineStats } from '../core/contract/contract.ts'

export interface ScrapedEngine {
  readonly stats: EngineStats
  /** The engine sleeps (`/sleep`): its health check succeeds, and requests hang. */
  readonly asleep: boolean
}

export interface Sample {
  readonly labels: ReadonlyMap<string, string>
  readonly value: number
}

const READ: ReadonlySet<string> = new Set([
  'vllm:num_requests_running',
  'vllm:num_requests_waiting',
  'vllm:kv_cache_usage_perc',
  // Name before vLLM 0.9.
  'vllm:gpu_cache_usage_perc',
  'vllm:cache_config_info',
  'vllm:engine_sleep_state',
  'vllm:lora_requests_info',
])

/**
 * Reads an engine's metrics. null: the text has no queue gauge, so it is not from an engine. Data-parallel ranks
 * behind one address count as one engine.
 */
export function readEngineMetrics(text: string): ScrapedEngine | null {
  const samples = samplesOf(text, READ)
  const running = samples.get('vllm:num_requests_running')
  if (running === undefined) return null
  const usage = samples.get('vllm:kv_cache_usage_perc') ?? samples.get('vllm:gpu_cache_usage_perc')
  const configs = samples.get('vllm:cache_config_info') ?? []
  const awake =
    samples.get('vllm:engine_sleep_state')?.filter(({ labels }) => labels.get('sleep_state') === 'awake') ?? []
  return {
    asleep: awake.length > 0 && awake.every(({ value }) => value === 0),
    stats: {
      running: sum(running),
      waiting: sum(samples.get('vllm:num_requests_waiting') ?? []),
      kvUsage: usage === undefined ? null : sum(usage) / usage.length,
      blockTokens: whole(configs[0]?.labels.get('block_size')),
      cacheBlocks: cacheBlocksOf(configs),
      prefixCaching: flag(configs[0]?.labels.get('enable_prefix_caching')),
      adapters: adaptersOf(samples.get('vllm:lora_requests_info') ?? []),
    },
  }
}

/** Returns the samples of the `wanted` families by name. Unreadable lines are ignored. */
export function samplesOf(text: string, wanted: ReadonlySet<string>): Map<string, Sample[]> {
  const samples = new Map<string, Sample[]>()
  for (const line of text.split('\n')) {
    if (!line.startsWith('vllm:')) continue
    const end = line.search(/[{ ]/)
    const name = line.slice(0, end)
    // Also ignores `*_created`, which accompanies every counter.
    if (end < 0 || !wanted.has(name)) continue
    const sample = sampleOf(line.slice(end))
    if (sample === null) continue
    const known = samples.get(name)
    if (known === undefined) samples.set(name, [sample])
    else known.push(sample)
  }
  return samples
}

const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)",?/y

/** Parses the rest of a line after the name: `{label="value",…} number`. null: unreadable. */
function sampleOf(rest: string): Sample | null {
  const labels = new Map<string, string>()
  let at = 0
  if (rest.startsWith('{')) {
    LABEL.lastIndex = 1
    for (let match = LABEL.exec(rest); match !== null; match = LABEL.exec(rest)) {
      labels.set(
        match[1]!,
        match[2]!.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped)),
      )
      at = LABEL.lastIndex
    }
    at = rest.indexOf('}', at)
    if (at < 0) return null
    at++
  }
  const value = Number.parseFloat(rest.slice(at))
  return Number.isFinite(value) ? { labels, value } : null
}

function sum(samples: readonly Sample[]): number {
  return samples.reduce((total, { value }) => total + value, 0)
}

/**
 * Models with several kinds of attention hold fewer tokens than their blocks suggest; an engine's own token count
 * takes precedence.
 */
function cacheBlocksOf(configs: readonly Sample[]): number | null {
  const blocks = configs
    .map(({ labels }) => {
      const [tokens, blockTokens] = [whole(labels.get('kv_cache_size_tokens')), whole(labels.get('block_size'))]
      return tokens && blockTokens ? Math.floor(tokens / blockTokens) : whole(labels.get('num_gpu_blocks'))
    })
    .filter((count) => count !== null)
  return blocks.length === 0 ? null : blocks.reduce((total, count) => total + count, 0)
}

/** Each change of the set of adapters leaves a series behind. Its value is the time, so the greatest is current. */
function adaptersOf(samples: readonly Sample[]): EngineStats['adapters'] {
  if (samples.length === 0) return null
  const { labels } = samples.reduce((latest, sample) => (sample.value >= latest.value ? sample : latest))
  const running = (labels.get('running_lora_adapters') ?? '').split(',').map((name) => name.trim())
  return { running: running.filter((name) => name !== ''), max: whole(labels.get('max_lora')) }
}

function whole(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null
}

/** Parses a boolean in Python's spelling. */
function flag(text: string | undefined): boolean | null {
  if (text === 'True' || text === 'true') return true
  return text === 'False' || text === 'false' ? false : null
}
