import type { Job } from './job.ts'
import type { RunResult } from './run.ts'

export interface Slo {
  readonly ttftMs: number
  /** Added to `ttftMs` for each 1,000 tokens of the prompt. Absent: nothing. */
  readonly ttftMsPer1kTokens?: number
  readonly itlMs: number
}

/** Latency and cost of a run. Times in milliseconds, shares from 0 to 1. */
export interface Figures {
  readonly policy: string
  readonly requests: number
  readonly refused: number
  readonly ttftMeanMs: number
  readonly ttftP50Ms: number
  readonly ttftP90Ms: number
  readonly ttftP99Ms: number
  /** Mean time between two tokens of a request, averaged over requests, and its 99th percentile. */
  readonly itlMeanMs: number
  readonly itlP99Ms: number
  /** Share of the run's requests that were answered completely and within both limits. */
  readonly goodput: number
  /** Share of prompt tokens found in a cache. */
  readonly hit: number
  /** Requests and computed prompt tokens of the busiest engine, relative to the mean. */
  readonly imbalanceRequests: number
  readonly imbalanceWork: number
  readonly preemptions: number
  readonly decisionMeanUs: number
  readonly decisionP99Us: number
  /** Median of |predicted - actual| / actual TTFT; null: the policy predicts nothing. */
  readonly ttftErrorP50: number | null
  readonly spanS: number
}

export function figuresOf(result: RunResult, slo: Slo): Figures {
  const jobs = result.jobs.filter(({ endedAt }) => endedAt >= 0)
  const ttft = sorted(jobs.map(({ firstTokenAt, sentAt }) => firstTokenAt - sentAt))
  const streams = jobs.filter(({ outputTokens }) => outputTokens > 1)
  const itl = sorted(streams.map(itlOf))
  const good = jobs.filter((job) => keepsSlo(job, slo))
  const requests = new Float64Array(result.computedTokens.length)
  for (const { engine } of jobs) requests[engine]! += 1
  const decisions = sorted(Array.from(result.decisionsMs))
  const errors = sorted(
    jobs.flatMap(({ predictedTtftMs, firstTokenAt, sentAt }) =>
      predictedTtftMs === null || firstTokenAt <= sentAt
        ? []
        : [Math.abs(predictedTtftMs - (firstTokenAt - sentAt)) / (firstTokenAt - sentAt)],
    ),
  )
  return {
    policy: result.router,
    requests: jobs.length,
    refused: result.refused,
    ttftMeanMs: mean(ttft),
    ttftP50Ms: quantile(ttft, 0.5),
    ttftP90Ms: quantile(ttft, 0.9),
    ttftP99Ms: quantile(ttft, 0.99),
    itlMeanMs: mean(itl),
    itlP99Ms: quantile(itl, 0.99),
    goodput: result.jobs.length === 0 ? 0 : good.length / result.jobs.length,
    hit:
      sum(jobs.map(({ cachedTokens }) => cachedTokens)) /
      Math.max(1, sum(jobs.map(({ promptTokens }) => promptTokens))),
    imbalanceRequests: imbalance(requests),
    imbalanceWork: imbalance(result.computedTokens),
    preemptions: sum(jobs.map(({ preemptions }) => preemptions)),
    decisionMeanUs: mean(decisions) * 1000,
    decisionP99Us: quantile(decisions, 0.99) * 1000,
    ttftErrorP50: errors.length === 0 ? null : quantile(errors, 0.5),
    spanS: result.spanMs / 1000,
  }
}

/** Whether a request was answered completely and within both limits. */
export function keepsSlo(job: Job, slo: Slo): boolean {
  const limitMs = slo.ttftMs + ((slo.ttftMsPer1kTokens ?? 0) * job.promptTokens) / 1000
  if (job.endedAt < 0 || job.firstTokenAt - job.sentAt > limitMs) return false
  return job.outputTokens === 1 || itlOf(job) <= slo.itlMs
}

/** Mean time between two tokens of an answered request with several. */
const itlOf = (job: Job): number => (job.endedAt - job.firstTokenAt) / (job.outputTokens - 1)

/** Sample standard deviation between seeds; null for fewer than two values. */
export function deviation(values: readonly number[]): number | null {
  if (values.length < 2) return null
  const middle = mean(values)
  return Math.sqrt(sum(values.map((value) => (value - middle) ** 2)) / (values.length - 1))
}

function sorted(values: readonly number[]): Float64Array {
  return Float64Array.from(values).sort()
}

/** Quantile of sorted values: the smallest value that this share does not exceed; 0 for none. */
export function quantile(values: Float64Array, share: number): number {
  return values[Math.min(values.length - 1, Math.max(0, Math.ceil(share * values.length) - 1))] ?? 0
}

function sum(values: ArrayLike<number>): number {
  let total = 0
  for (let at = 0; at < values.length; at += 1) total += values[at]!
  return total
}

function mean(values: ArrayLike<number>): number {
  return values.length === 0 ? 0 : sum(values) / values.length
}

function imbalance(values: Float64Array): number {
  const average = mean(values)
  return average === 0 ? 1 : Math.max(...values) / average
}
