/** Rates and latencies of the fleet over the last 15 minutes, from the totals and first tokens of each view. */
import { quantile } from './format.ts'
import type { Engine, View, Decision, Traffic } from './wire.ts'

/** Enough points for a chart, and small for a page that stays open for weeks. */
const KEPT = 400

/** What the page keeps of the views it was sent. */
export interface History {
  /** The newest decisions, newest first: many may still wait for their first token. */
  readonly latest: readonly Decision[]
  /** Decisions with a first token or an outcome, newest first: those that newer requests do not push out. */
  readonly measured: readonly Decision[]
}

export const noHistory: History = { latest: [], measured: [] }

/** A retry is a separate decision. */
export const keyOf = ({ id, attempt }: Pick<Decision, 'id' | 'attempt'>): string => `${id}#${attempt}`

export function remembered({ latest, measured }: History, sent: readonly Decision[]): History {
  return {
    latest: merged(latest, sent),
    measured: merged(measured, sent.filter(isMeasured)),
  }
}

/** Milliseconds to the first token, also while the answer still streams; null: not known. */
export const ttftOf = ({ actual, first_token: first }: Decision): number | null =>
  actual?.ttft_ms ?? first?.ttft_ms ?? null

/** Stages up to the first token. */
export const stagesOf = ({ actual, first_token: first }: Decision) => actual?.stages ?? first?.stages

const isMeasured = ({ actual, first_token: first }: Decision): boolean => actual !== null || first !== undefined

/** Merges known and new decisions, newest first. Of duplicates the newer is kept, because its outcome is known. */
function merged(known: readonly Decision[], sent: readonly Decision[]): Decision[] {
  const newer = new Set(sent.map(keyOf))
  return [...sent, ...known.filter((decision) => !newer.has(keyOf(decision)))]
    .toSorted((a, b) => b.at - a.at)
    .slice(0, KEPT)
}

/** Figures at one time. null: unknown. */
export interface Point {
  /** Epoch milliseconds. */
  readonly at: number
  readonly requestsPerS: number | null
  /** Failed attempts as a share of attempts, over the rate window. */
  readonly failureShare: number | null
  /** Output tokens by the engines' usage, which comes at the end of a response. */
  readonly outputTokensPerS: number | null
  readonly rejectedPerS: number | null
  /** Over the last first tokens of each engine, as many as the gateway keeps. */
  readonly ttftP50Ms: number | null
  readonly ttftP95Ms: number | null
  readonly ttftP99Ms: number | null
  /** Longest prefill queue of an engine. */
  readonly queueS: number | null
  /** Highest KV cache use of an engine. */
  readonly kvUsage: number | null
}

interface Totals {
  /** Requests are counted on decode engines, so that a split request counts once. */
  readonly served: number | null
  readonly attempts: number
  readonly failures: number
}

interface Mark {
  readonly at: number
  readonly totals: ReadonlyMap<string, Totals>
  readonly traffic: Traffic | undefined
}

export interface Trend {
  /** Oldest first, one per 5 s; the last is the current one. */
  readonly points: readonly Point[]
  /** Totals of the last 10 s, oldest first. */
  readonly marks: readonly Mark[]
  readonly startedAt: number | null
}

export const noTrend: Trend = { points: [], marks: [], startedAt: null }

export const SPAN_MS = 15 * 60_000
const STEP_MS = 5_000
/** Long enough for a stable rate at 1 request/s. */
const WINDOW_MS = 10_000

/** Adds a view. A gateway that restarted has new totals, so its rates start again. */
export function trended({ points, marks, startedAt }: Trend, view: View): Trend {
  const now: Mark = { at: view.at, totals: totalsOf(view), traffic: view.traffic }
  const before = startedAt === view.started_at ? marks.filter(({ at }) => at < view.at) : []
  // One mark beyond the window, so that the rate covers all of it.
  const from = Math.max(
    0,
    before.findLastIndex(({ at }) => at <= view.at - WINDOW_MS),
  )
  const kept = [...before.slice(from), now]
  const point = pointOf(view, kept)
  // The current point becomes permanent once it is a step after the point before it.
  const [previous, current] = [points.at(-2), points.at(-1)]
  const isTransient = previous !== undefined && current !== undefined && current.at - previous.at < STEP_MS
  const older = isTransient ? points.slice(0, -1) : points
  return {
    points: [...older.filter(({ at }) => at > view.at - SPAN_MS && at < view.at), point],
    marks: kept,
    startedAt: view.started_at,
  }
}

function totalsOf({ pools }: View): Map<string, Totals> {
  const totals = new Map<string, Totals>()
  for (const { cluster, model, engines } of pools)
    for (const engine of engines) {
      const { id, role, requests_total: requests, failures_total: failures, counted_before: before } = engine
      if (requests === undefined || failures === undefined) continue
      const attempts = requests - (before?.requests ?? 0)
      totals.set(`${cluster} ${model} ${id}`, {
        served: role === 'any' || role === 'decode' ? attempts : null,
        attempts,
        failures: failures - (before?.failures ?? 0),
      })
    }
  return totals
}

function pointOf({ at, pools }: View, marks: readonly Mark[]): Point {
  const engines = pools.flatMap((pool) => pool.engines)
  const ttfts = engines.flatMap(({ recent_ttft_ms: recent }) => recent ?? [])
  return {
    at,
    ...ratesOf(marks),
    ...trafficRates(marks),
    ttftP50Ms: quantile(ttfts, 0.5),
    ttftP95Ms: quantile(ttfts, 0.95),
    ttftP99Ms: quantile(ttfts, 0.99),
    queueS: highest(engines, ({ queued_prefill_s: queue }) => queue),
    kvUsage: highest(engines, ({ stats }) => stats?.kv_usage),
  }
}

function ratesOf(marks: readonly Mark[]): Pick<Point, 'requestsPerS' | 'failureShare'> {
  const [first, last] = [marks[0]!, marks.at(-1)!]
  if (last.at <= first.at) return { requestsPerS: null, failureShare: null }
  const grown = { served: 0, attempts: 0, failures: 0 }
  for (const [key, { served, attempts, failures }] of last.totals) {
    const earlier = first.totals.get(key)
    // An object that lost its totals counts from zero.
    if (earlier === undefined || attempts < earlier.attempts || failures < earlier.failures) continue
    grown.served += (served ?? 0) - (earlier.served ?? 0)
    grown.attempts += attempts - earlier.attempts
    grown.failures += failures - earlier.failures
  }
  return {
    requestsPerS: (1000 * grown.served) / (last.at - first.at),
    failureShare: grown.attempts === 0 ? null : Math.min(1, grown.failures / grown.attempts),
  }
}

function trafficRates(marks: readonly Mark[]): Pick<Point, 'outputTokensPerS' | 'rejectedPerS'> {
  const [first, last] = [marks[0]!, marks.at(-1)!]
  const [before, now] = [first.traffic, last.traffic]
  if (before === undefined || now === undefined || last.at <= first.at)
    return { outputTokensPerS: null, rejectedPerS: null }
  const perS = (growth: number): number => Math.max(0, (1000 * growth) / (last.at - first.at))
  return {
    outputTokensPerS: perS(now.output_tokens_total - before.output_tokens_total),
    rejectedPerS: perS(rejected(now) - rejected(before)),
  }
}

const rejected = ({ rejected_total: byReason }: Traffic): number =>
  Object.values(byReason).reduce((sum, count) => sum + count, 0)

/** Reasons of the rejections of the last 10 s, most frequent first. */
export function rejectionReasons({ marks }: Pick<Trend, 'marks'>): readonly string[] {
  const [before, now] = [marks[0]?.traffic?.rejected_total, marks.at(-1)?.traffic?.rejected_total]
  if (before === undefined || now === undefined) return []
  return Object.entries(now)
    .map(([reason, total]): readonly [string, number] => [reason, total - (before[reason] ?? 0)])
    .filter(([, grown]) => grown > 0)
    .toSorted(([, a], [, b]) => b - a)
    .map(([reason]) => reason.replaceAll('_', ' '))
}

function highest(engines: readonly Engine[], of: (engine: Engine) => number | null | undefined): number | null {
  const values = engines.flatMap((engine) => of(engine) ?? [])
  return values.length === 0 ? null : values.reduce((most, value) => Math.max(most, value))
}
