/** Reads the load of an engine, or of one of its data-parallel ranks, from the samples of its metrics. */
import type { EngineStats, RankStats } from '../core/contract/engine-signal.ts'
import type { Sample, Samples } from './prometheus-text.ts'

/** Value of a metric, or of one of its labels. */
interface MetricValue {
  readonly metric: string
  readonly label?: string
}

/** Counter of tokens or steps. */
export interface WorkCounter {
  readonly metric: string
  /** Only samples with this value of the label. Absent: all. */
  readonly only?: { readonly label: string; readonly value: string }
  /** It grows with every step that has output, or during a prefill. Absent: later. */
  readonly grows?: 'live' | 'prefill'
}

export interface LoadMetrics {
  /** Requests in the running batch. Several names: of different versions. */
  readonly running: readonly string[]
  /** Requests that wait for a place in the batch. */
  readonly waiting: readonly string[]
  /** Share of the KV cache in use, 0 to 1. */
  readonly kvUsage: readonly string[]
  /** Tokens of one block of the KV cache. */
  readonly blockTokens: readonly MetricValue[]
  /** Number of blocks of the KV cache. */
  readonly cacheBlocks: readonly MetricValue[]
  /** `cacheBlocks` is the sum over all ranks and is repeated for each. */
  readonly cacheBlocksOfAllRanks: boolean
  /** Tokens of the KV cache of one rank. Takes precedence: models with several kinds of attention hold fewer. */
  readonly cacheTokens: readonly MetricValue[]
  readonly prefixCaching: MetricValue | null
  /** Label with the data-parallel rank. null: the server has none. */
  readonly rankLabel: string | null
  /** Labels of ranks that repeat the values of their data-parallel rank. */
  readonly repeatedBy: readonly string[]
  /** Requests completed since the start, by rank: shows whether a proxy drops the header that chooses a rank. */
  readonly completed: readonly string[]
  /** Counters of tokens and steps, which show whether the engine works. */
  readonly work: readonly WorkCounter[]
  /** Gauge that is 0 with `label` = `awake` while the engine sleeps. */
  readonly awake: { readonly metric: string; readonly label: string; readonly value: string } | null
  readonly adapters: { readonly metric: string; readonly running: string; readonly max: string } | null
}

/** Metrics of a server that reports only its queue. */
export const queueMetrics = (running: string, waiting: string, kvUsage: readonly string[] = []): LoadMetrics => ({
  running: [running],
  waiting: [waiting],
  kvUsage,
  blockTokens: [],
  cacheBlocks: [],
  cacheBlocksOfAllRanks: false,
  cacheTokens: [],
  prefixCaching: null,
  rankLabel: null,
  repeatedBy: [],
  completed: [],
  work: [],
  awake: null,
  adapters: null,
})

/** What an engine reports of its load. */
export interface ReportedLoad {
  readonly stats: EngineStats
  /** The engine sleeps: its health check succeeds, and requests hang. */
  readonly asleep: boolean
  /** Data-parallel ranks in ascending order, as metrics number them. Empty: no rank label. */
  readonly ranks: readonly string[]
}

/** Names that `readLoad` needs. */
export const metricNames = (metrics: LoadMetrics): readonly string[] => [
  ...metrics.running,
  ...metrics.waiting,
  ...metrics.kvUsage,
  ...metrics.completed,
  ...metrics.work.map(({ metric }) => metric),
  ...[...metrics.blockTokens, ...metrics.cacheBlocks, ...metrics.cacheTokens].map(({ metric }) => metric),
  ...[metrics.prefixCaching, metrics.awake, metrics.adapters].flatMap((one) => (one === null ? [] : [one.metric])),
]

/** Reads the load. null: the samples have no queue gauge. `rank`: only this rank; null: all ranks as one engine. */
export function readLoad(metrics: LoadMetrics, samples: Samples, rank: string | null = null): ReportedLoad | null {
  if (!metrics.running.some((name) => samples.has(name))) return null
  const ranks = ranksOf(metrics, samples)
  const own = rank === null ? samples : samplesOfRank(metrics, samples, rank)
  const usage = gaugesOf(metrics, own, metrics.kvUsage)
  const { prefixCaching, adapters } = metrics
  const caching = prefixCaching === null ? undefined : own.get(prefixCaching.metric)?.[0]
  return {
    ranks,
    asleep: isAsleep(metrics, own),
    stats: {
      running: sum(gaugesOf(metrics, own, metrics.running)),
      waiting: sum(gaugesOf(metrics, own, metrics.waiting)),
      kvUsage: usage.length === 0 ? null : sum(usage) / usage.length,
      blockTokens: numbersOf(own, metrics.blockTokens)[0] ?? null,
      cacheBlocks: cacheBlocksOf(metrics, own, rank === null ? 1 : Math.max(1, ranks.length)),
      prefixCaching: flag(caching?.labels.get(prefixCaching?.label ?? '')),
      // vLLM's metric has no label of the rank.
      adapters: adapters === null ? null : adaptersOf(adapters, samples.get(adapters.metric) ?? []),
      ...workOf(metrics, own),
    },
  }
}

/** Load of each rank in ascending order, and the requests that it completed. */
export function readRanks(metrics: LoadMetrics, samples: Samples): readonly RankStats[] {
  const completed = completedByRank(metrics, samples)
  return ranksOf(metrics, samples).flatMap((rank): readonly RankStats[] => {
    const load = readLoad(metrics, samples, rank)
    return load === null ? [] : [{ rank: Number(rank), stats: load.stats, completed: completed.get(rank) ?? null }]
  })
}

/** Requests completed by each rank. @testing */
export function completedByRank(metrics: LoadMetrics, samples: Samples): ReadonlyMap<string, number> {
  const byRank = new Map<string, number>()
  for (const { labels, value } of firstOf(samples, metrics.completed)) {
    const rank = labels.get(metrics.rankLabel ?? '')
    if (rank !== undefined) byRank.set(rank, (byRank.get(rank) ?? 0) + value)
  }
  return byRank
}

function ranksOf({ rankLabel, running }: LoadMetrics, samples: Samples): readonly string[] {
  if (rankLabel === null) return []
  const found = firstOf(samples, running).flatMap(({ labels }) => labels.get(rankLabel) ?? [])
  return [...new Set(found)].sort((a, b) => Number(a) - Number(b))
}

function samplesOfRank({ rankLabel }: LoadMetrics, samples: Samples, rank: string): Samples {
  if (rankLabel === null) return samples
  return new Map(
    Array.from(samples, ([name, all]) => [name, all.filter(({ labels }) => labels.get(rankLabel) === rank)]),
  )
}

/** Samples of the first name that is present. */
const firstOf = (samples: Samples, names: readonly string[]): readonly Sample[] =>
  names.map((name) => samples.get(name)).find((one) => one !== undefined) ?? []

/**
 * Values of the first metric that is present. SGLang's tensor-parallel and pipeline-parallel ranks can each export the
 * values of their data-parallel rank, which count once.
 */
function gaugesOf({ repeatedBy, rankLabel }: LoadMetrics, samples: Samples, names: readonly string[]): number[] {
  const found = firstOf(samples, names)
  if (!found.some(({ labels }) => repeatedBy.some((label) => labels.has(label)))) return found.map(({ value }) => value)
  const byRank = new Map<string, number>()
  for (const { labels, value } of found) {
    const rank = `${labels.get('engine_type') ?? ''} ${labels.get(rankLabel ?? '') ?? ''}`
    byRank.set(rank, Math.max(byRank.get(rank) ?? 0, value))
  }
  return [...byRank.values()]
}

/** Whole numbers of metrics or labels, one for each rank. */
function numbersOf(samples: Samples, values: readonly MetricValue[]): number[] {
  return values.flatMap(({ metric, label }) =>
    (samples.get(metric) ?? []).flatMap(({ labels, value }) => {
      const number = label === undefined ? whole(String(value)) : whole(labels.get(label))
      return number === null || number === 0 ? [] : [number]
    }),
  )
}

/** Blocks of the read ranks. `share`: number of ranks among which a total is divided. */
function cacheBlocksOf(metrics: LoadMetrics, samples: Samples, share: number): number | null {
  const blockTokens = numbersOf(samples, metrics.blockTokens)[0]
  const tokens = numbersOf(samples, metrics.cacheTokens)
  if (tokens.length > 0 && blockTokens !== undefined)
    return sum(tokens.map((ofRank) => Math.floor(ofRank / blockTokens)))
  const blocks = numbersOf(samples, metrics.cacheBlocks)
  if (blocks.length === 0) return null
  return metrics.cacheBlocksOfAllRanks ? Math.floor(Math.max(...blocks) / share) : sum(blocks)
}

function workOf({ work }: LoadMetrics, samples: Samples): Pick<EngineStats, 'work'> {
  const totals = work.flatMap((counter) => {
    const values = countsOf(counter, samples.get(counter.metric) ?? [])
    return values.length === 0 ? [] : [{ grows: counter.grows, total: sum(values) }]
  })
  if (totals.length === 0) return {}
  const sumOf = (when: WorkCounter['grows']): number | null => {
    const some = totals.filter(({ grows }) => grows === when)
    return some.length === 0 ? null : sum(some.map(({ total }) => total))
  }
  return {
    work: { total: sum(totals.map(({ total }) => total)), live: sumOf('live'), prefill: sumOf('prefill') },
  }
}

function countsOf({ only }: WorkCounter, samples: readonly Sample[]): number[] {
  return samples.flatMap(({ labels, value }) => (only && labels.get(only.label) !== only.value ? [] : [value]))
}

function isAsleep({ awake }: LoadMetrics, samples: Samples): boolean {
  if (awake === null) return false
  const states = (samples.get(awake.metric) ?? []).filter(({ labels }) => labels.get(awake.label) === awake.value)
  return states.length > 0 && states.every(({ value }) => value === 0)
}

/** Each change of the set of adapters leaves a series behind. Its value is the time, so the greatest is current. */
function adaptersOf(
  { running, max }: NonNullable<LoadMetrics['adapters']>,
  samples: readonly Sample[],
): EngineStats['adapters'] {
  if (samples.length === 0) return null
  const { labels } = samples.reduce((latest, sample) => (sample.value >= latest.value ? sample : latest))
  const names = (labels.get(running) ?? '').split(',').map((name) => name.trim())
  return { running: names.filter((name) => name !== ''), max: whole(labels.get(max)) }
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0)

function whole(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null
}

/** Parses a boolean in Python's spelling. */
function flag(text: string | undefined): boolean | null {
  if (text === 'True' || text === 'true') return true
  return text === 'False' || text === 'false' ? false : null
}
