import { deviation, type Figures } from '../replay/statistics.ts'

/** One result row: a policy at one load, over all seeds. Field names contain the unit. */
export interface ReplayRow {
  readonly trace: string
  /** Share of the sustainable load; null: the trace's own pace or the requested speed. */
  readonly load: number | null
  readonly policy: string
  readonly ttft_mean_ms: number
  /** Standard deviation over seeds; absent with a single seed. */
  readonly ttft_mean_sd_ms?: number
  readonly ttft_p50_ms: number
  readonly ttft_p90_ms: number
  readonly ttft_p99_ms: number
  readonly itl_mean_ms: number
  readonly goodput: number
  readonly hit: number
  readonly imbalance_requests: number
  readonly imbalance_work: number
  readonly preemptions: number
  readonly decision_mean_us: number
  readonly [further: string]: string | number | null | undefined
}

/** Averages over seeds, with the spread of the means if there are several. */
export function rowOf(
  policy: string,
  figures: readonly Figures[],
  { trace, load }: { readonly trace: string; readonly load: number | null },
): ReplayRow {
  const mean = (pick: (one: Figures) => number) =>
    round(figures.reduce((sum, one) => sum + pick(one), 0) / figures.length)
  const apart = deviation(figures.map((one) => one.ttftMeanMs))
  return {
    trace,
    load,
    policy,
    seeds: figures.length,
    requests: figures[0]!.requests,
    refused: mean((one) => one.refused),
    ttft_mean_ms: mean((one) => one.ttftMeanMs),
    ...(apart === null ? {} : { ttft_mean_sd_ms: round(apart) }),
    ttft_p50_ms: mean((one) => one.ttftP50Ms),
    ttft_p90_ms: mean((one) => one.ttftP90Ms),
    ttft_p99_ms: mean((one) => one.ttftP99Ms),
    itl_mean_ms: mean((one) => one.itlMeanMs),
    itl_p99_ms: mean((one) => one.itlP99Ms),
    goodput: mean((one) => one.goodput),
    hit: mean((one) => one.hit),
    imbalance_requests: mean((one) => one.imbalanceRequests),
    imbalance_work: mean((one) => one.imbalanceWork),
    preemptions: mean((one) => one.preemptions),
    decision_mean_us: mean((one) => one.decisionMeanUs),
    decision_p99_us: mean((one) => one.decisionP99Us),
    ttft_error_p50: figures[0]!.ttftErrorP50 === null ? null : mean((one) => one.ttftErrorP50 ?? 0),
  }
}

const round = (value: number) => Number(value.toPrecision(6))
