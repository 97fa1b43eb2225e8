/** Figures of one run on a mixed fleet, and the headline over all rows. */
import { quantile } from '../../replay/src/replay/statistics.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import type { RunResult } from '../../replay/src/replay/run.ts'
import type { BenchRow } from '../result.ts'
import { ORACLE, OWN, type PredictionTally } from './policies.ts'

/** Traffic after which a gateway should know its engines, ms. */
export const COLD_MS = 60_000

const GOOD = { ttftMs: 5_000, itlMs: 100 }
/** Predictions of an engine whose median error counts as learned, and the error. */
const LEARNED_PREDICTIONS = 20
const LEARNED_ERROR = 0.15
/** Minimum number of predictions for a median. */
const MIN_PREDICTIONS = 5

const HIGH_LOAD = 0.7

export interface RunFigures {
  readonly ttftMeanMs: number
  readonly ttftP99Ms: number
  readonly goodput: number
}

const ttftOf = ({ firstTokenAt, sentAt }: Job): number => firstTokenAt - sentAt

function isGood(job: Job): boolean {
  if (job.endedAt < 0 || ttftOf(job) > GOOD.ttftMs) return false
  return job.outputTokens === 1 || (job.endedAt - job.firstTokenAt) / (job.outputTokens - 1) <= GOOD.itlMs
}

/** Of the requests sent after, or within, the first minute. */
export function figuresOf({ jobs }: RunResult, isCold: boolean): RunFigures {
  const counted = jobs.filter(({ sentAt }) => sentAt < COLD_MS === isCold)
  const ttfts = Float64Array.from(counted, ttftOf).sort()
  return {
    ttftMeanMs: ttfts.reduce((sum, ttft) => sum + ttft, 0) / Math.max(1, ttfts.length),
    ttftP99Ms: quantile(ttfts, 0.99),
    goodput: counted.filter(isGood).length / Math.max(1, counted.length),
  }
}

/** Requests with a prediction, by engine, in order of their first tokens. */
function predictedByEngine(jobs: readonly Job[]): readonly (readonly Job[])[] {
  const byEngine = new Map<number, Job[]>()
  for (const job of jobs)
    if (job.predictedTtftMs !== null) byEngine.set(job.engine, [...(byEngine.get(job.engine) ?? []), job])
  return [...byEngine.values()].map((own) => own.sort((one, other) => one.firstTokenAt - other.firstTokenAt))
}

/** Number of requests after which the median error of the last 20, or of all if there are fewer, was small. */
function learnedAfter(own: readonly Job[], min: number): number | null {
  const errors = own.map((job) => Math.abs(job.predictedTtftMs! / ttftOf(job) - 1))
  for (let end = min; end <= errors.length; end += 1) {
    const last = Float64Array.from(errors.slice(Math.max(0, end - LEARNED_PREDICTIONS), end)).sort()
    if (quantile(last, 0.5) <= LEARNED_ERROR) return end
  }
  return null
}

/** Seconds until the last predictions of every engine that got so many were right; the whole run: they never were. */
export function learnedWithinS({ jobs, spanMs }: RunResult): number {
  const times = predictedByEngine(jobs).flatMap((own) => {
    if (own.length < LEARNED_PREDICTIONS) return []
    const requests = learnedAfter(own, LEARNED_PREDICTIONS)
    return [requests === null ? spanMs : own[requests - 1]!.firstTokenAt]
  })
  return Math.max(0, ...times) / 1_000
}

/** Requests of the slowest learned engine until its predictions were right: the seconds depend on the traffic, too. */
export function learnedAfterRequests({ jobs }: RunResult): number {
  const counts = predictedByEngine(jobs).flatMap((own) =>
    own.length < MIN_PREDICTIONS ? [] : [learnedAfter(own, MIN_PREDICTIONS) ?? own.length],
  )
  return Math.max(0, ...counts)
}

/** One row of a cell: the gateway beside the best peer rule and the oracle. */
export function comparedRow(figures: ReadonlyMap<string, RunFigures>): BenchRow {
  const own = figures.get(OWN)!
  const oracle = figures.get(ORACLE)!
  const peers = [...figures].filter(([name]) => name !== OWN && name !== ORACLE)
  const minBy = (pick: (one: RunFigures) => number) =>
    peers.reduce((best, peer) => (pick(peer[1]) < pick(best[1]) ? peer : best))
  const [peer, best] = minBy((one) => one.ttftMeanMs)
  const [tailPeer, tail] = minBy((one) => one.ttftP99Ms)
  const [goodPeer, good] = minBy((one) => -one.goodput)
  return {
    ttft_mean_ms: Math.round(own.ttftMeanMs),
    best_peer: peer,
    peer_ttft_mean_ms: Math.round(best.ttftMeanMs),
    ttft_vs_peer: ratio(own.ttftMeanMs, best.ttftMeanMs),
    ttft_p99_ms: Math.round(own.ttftP99Ms),
    p99_peer: tailPeer,
    p99_vs_peer: ratio(own.ttftP99Ms, tail.ttftP99Ms),
    ttft_vs_oracle: ratio(own.ttftMeanMs, oracle.ttftMeanMs),
    goodput: Number(own.goodput.toFixed(3)),
    goodput_peer: goodPeer,
    goodput_vs_best: ratio(own.goodput, Math.max(good.goodput, own.goodput)),
  }
}

const ratio = (one: number, other: number): number => Number((other === 0 ? 1 : one / other).toFixed(3))

const of = (name: string, rows: readonly BenchRow[]): number[] => rows.map((row) => Number(row[name]))

/** Over the rows after the first minute. */
export function headlineOf(rows: readonly BenchRow[], tally: PredictionTally): Record<string, number> {
  const warm = rows.filter((row) => row['part'] === 'after 60 s')
  const high = warm.filter((row) => Number(row['load']) >= HIGH_LOAD)
  const low = warm.filter((row) => Number(row['load']) < HIGH_LOAD)
  const ratios = of('ttft_vs_peer', warm)
  const figures: Record<string, readonly number[]> = {
    ttft_mean_vs_best_peer_max_high: of('ttft_vs_peer', high),
    ttft_mean_vs_best_peer_max_low: of('ttft_vs_peer', low),
    ttft_p99_vs_best_peer_max_high: of('p99_vs_peer', high),
    ttft_mean_vs_oracle_max: of('ttft_vs_oracle', warm),
    learned_within_s: of('learned_within_s', high),
    learned_after_requests: of('learned_after_requests', high),
  }
  return {
    ...Object.fromEntries(Object.entries(figures).map(([name, values]) => [name, Math.max(0, ...values)])),
    ttft_vs_best_peer_geomean: Number(
      Math.exp(ratios.reduce((sum, one) => sum + Math.log(one), 0) / Math.max(1, ratios.length)).toFixed(3),
    ),
    goodput_vs_best_policy_min: Math.min(1, ...of('goodput_vs_best', warm)),
    predictions_differ: tally.differed,
    predictions_compared: tally.decisions,
    bounds_compared: tally.bounds,
  }
}
