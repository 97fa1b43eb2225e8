import type { RunResult } from '../replay/run.ts'
import { quantile } from '../replay/statistics.ts'

/** Data of one run's plots, small enough to embed in a page. Times in seconds. */
export interface Series {
  readonly policy: string
  readonly load: number | null
  /** TTFT at evenly spaced quantiles, 0 to 1. */
  readonly ttftQuantiles: readonly number[]
  /** Mean TTFT of the requests sent in each time slice; null: none. */
  readonly ttftOverTime: readonly (number | null)[]
  readonly spanS: number
  /** Computed prompt tokens by engine, and the cached share of prompt tokens. */
  readonly workByEngine: readonly number[]
  readonly hitByEngine: readonly number[]
  /** Predicted and actual TTFT of a sample of requests. */
  readonly predictions: readonly (readonly [number, number])[]
}

const QUANTILES = 200

const SLICES = 60

const SAMPLES = 400

export function seriesOf(result: RunResult, load: number | null): Series {
  const jobs = result.jobs.filter(({ endedAt }) => endedAt >= 0)
  const ttftS = (job: (typeof jobs)[number]) => (job.firstTokenAt - job.sentAt) / 1000
  const sorted = Float64Array.from(jobs, ttftS).sort()
  const slices = Array.from({ length: SLICES }, () => ({ sum: 0, count: 0 }))
  const engines = Array.from(result.computedTokens, () => ({ cached: 0, prompt: 0 }))
  for (const job of jobs) {
    const slice = slices[Math.min(SLICES - 1, Math.floor((job.sentAt / Math.max(1, result.spanMs)) * SLICES))]!
    slice.sum += ttftS(job)
    slice.count += 1
    const engine = engines[job.engine]!
    engine.cached += job.cachedTokens
    engine.prompt += job.promptTokens
  }
  const predicted = jobs.filter(({ predictedTtftMs }) => predictedTtftMs !== null)
  const every = Math.max(1, Math.floor(predicted.length / SAMPLES))
  return {
    policy: result.router,
    load,
    ttftQuantiles: Array.from({ length: QUANTILES + 1 }, (_, at) => short(quantile(sorted, at / QUANTILES))),
    ttftOverTime: slices.map(({ sum, count }) => (count === 0 ? null : short(sum / count))),
    spanS: short(result.spanMs / 1000),
    workByEngine: Array.from(result.computedTokens),
    hitByEngine: engines.map(({ cached, prompt }) => (prompt === 0 ? 0 : short(cached / prompt))),
    predictions: predicted
      .filter((_, at) => at % every === 0)
      .map((job) => [short(job.predictedTtftMs! / 1000), short(ttftS(job))] as const),
  }
}

const short = (value: number) => Number(value.toPrecision(4))
