/**
 * Refused clients that all obey Retry-After exactly, up to a number of times: whether they return together, and what
 * they cost the others. Virtual time.
 */
import { GatewayRouter } from '../../replay/src/replay/gateway-router.ts'
import type { Route, RouterContext, RouterKind } from '../../replay/src/replay/router.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import type { BenchRow } from '../result.ts'
import { type Cell, runOnce, SLO } from './run.ts'

const MAX_RETRIES = 8
/** Width of the windows in which arrivals and responses are counted, ms: about a hundred requests at four times the load. */
const WINDOW_MS = 10_000

/** The header has whole seconds. */
const headerMs = (retryAfterMs: number): number => 1_000 * Math.ceil(retryAfterMs / 1_000)

interface Return {
  readonly job: Job
  readonly at: number
  readonly done: (route: Route | null) => void
}

/** Clients in front of a gateway. They return at the first tick of the replay at or after their time. */
class RetryingClients extends GatewayRouter {
  /** Times of all requests, retries among them. */
  readonly arrivals: number[] = []
  /** Time of the last request that is no retry. */
  lastFirstAt = 0
  readonly #maxRetries: number
  readonly #retries = new Map<Job, number>()
  #returns: Return[] = []

  constructor(context: RouterContext, name: string, maxRetries: number) {
    super({ name, policy: { name: 'predicted', options: {} }, slo: SLO }, context)
    this.#maxRetries = maxRetries
  }

  override route(job: Job, now: number): Route | null {
    this.arrivals.push(now)
    if (!this.#retries.has(job)) this.lastFirstAt = now
    return super.route(job, now)
  }

  override wait(job: Job, now: number, done: (route: Route | null) => void): boolean {
    const retries = this.#retries.get(job) ?? 0
    if (retries >= this.#maxRetries) return false
    this.#retries.set(job, retries + 1)
    this.#returns.push({ job, at: now + headerMs(this.refusal!.retryAfterMs), done })
    return true
  }

  override wake(now: number): void {
    const due = this.#returns.filter(({ at }) => at <= now)
    this.#returns = this.#returns.filter(({ at }) => at > now)
    for (const { job, done } of due) {
      // A retry is a request of its own, whose time to first token starts anew.
      job.sentAt = now
      const route = this.route(job, now)
      if (route !== null || !this.wait(job, now, done)) done(route)
    }
  }
}

/** Counts per window up to the last request of the trace. */
function perWindow(times: readonly number[], untilMs: number): number[] {
  const counts = Array.from({ length: Math.max(1, Math.floor(untilMs / WINDOW_MS)) }, () => 0)
  for (const at of times) {
    const window = Math.floor(at / WINDOW_MS)
    if (window < counts.length) counts[window]! += 1
  }
  return counts
}

const meanOf = (values: readonly number[]): number => values.reduce((sum, one) => sum + one, 0) / values.length

const variation = (values: readonly number[]): number => {
  const mean = meanOf(values)
  return Math.sqrt(meanOf(values.map((one) => (one - mean) ** 2))) / mean
}

const isGood = ({ endedAt, firstTokenAt, sentAt, outputTokens }: Job): boolean =>
  endedAt >= 0 &&
  firstTokenAt - sentAt <= SLO.ttftMs! &&
  (outputTokens === 1 || (endedAt - firstTokenAt) / (outputTokens - 1) <= SLO.itlMs!)

/** Rows without and with retries: means over the seeds. */
export function retryRows(cells: readonly Omit<Cell, 'kind'>[]): BenchRow[] {
  return [0, MAX_RETRIES].map((maxRetries) => {
    const runs = cells.map((cell) => figuresOf(cell, maxRetries))
    const mean = (pick: (one: (typeof runs)[number]) => number, digits = 3): number =>
      Number(meanOf(runs.map(pick)).toFixed(digits))
    return {
      trace: cells[0]!.trace.name,
      load: cells[0]!.load,
      policy: maxRetries === 0 ? 'slo, no retries' : `slo, up to ${maxRetries} retries after Retry-After`,
      goodput: mean((one) => one.goodput),
      refused: mean((one) => one.refused),
      requests_per_s: mean((one) => one.requestsPerS, 2),
      arrivals_peak_to_mean: mean((one) => one.peak, 2),
      good_per_s: mean((one) => one.goodPerS, 2),
      good_variation: mean((one) => one.variation, 2),
    }
  })
}

function figuresOf(cell: Omit<Cell, 'kind'>, maxRetries: number) {
  const name = 'slo_retries'
  let clients: RetryingClients | null = null
  const create = (context: RouterContext): RetryingClients => (clients = new RetryingClients(context, name, maxRetries))
  const kind: RouterKind = { name, doc: '', source: '', create }
  const { jobs, refused } = runOnce({ ...cell, kind })
  const { arrivals: times, lastFirstAt: untilMs } = clients!
  const arrivals = perWindow(times, untilMs)
  const good = perWindow(
    jobs.filter(isGood).map(({ firstTokenAt }) => firstTokenAt),
    untilMs,
  )
  return {
    goodput: jobs.filter(isGood).length / jobs.length,
    refused,
    requestsPerS: (1_000 * meanOf(arrivals)) / WINDOW_MS,
    peak: Math.max(...arrivals) / meanOf(arrivals),
    goodPerS: (1_000 * meanOf(good)) / WINDOW_MS,
    variation: variation(good),
  }
}
