/** Last 15 minutes of all pools, as the tiles and charts of the dashboard show them. */
import {
  emptyErrors,
  ERROR_LIMITS,
  type HistorySlice,
  type HistoryStep,
  type PoolHistory,
  SLICE_MS,
  SPAN_MS,
  STEP_MS,
} from '../contract/pool-history.ts'
import type { EndedByStep, EndedCounts } from './ended-history.ts'
import { mergeSlices, mergeSteps } from './merge-histories.ts'
import { quantileOf } from './sketch.ts'

/** Steps behind the current TTFT and shares: the last minute. */
const RECENT_STEPS = 6

/** Figures of the tiles. null: unknown. */
export interface Figures {
  readonly requestsPerS: number | null
  /** Requests that failed, as a share of those that ended without being rejected. */
  readonly failedShare: number | null
  readonly rejectedPerS: number | null
  readonly outputTokensPerS: number | null
  readonly ttftP50Ms: number | null
  readonly ttftP95Ms: number | null
  readonly ttftP99Ms: number | null
  /** First tokens within the objective of their pool, as a share of those that have one. */
  readonly withinSloShare: number | null
  readonly queueS: number | null
  readonly kvUsage: number | null
}

export interface HistoryView {
  readonly stepMs: number
  /** Start of the first step, ms since the epoch. */
  readonly from: number
  /** Each figure of each complete step, oldest first. */
  readonly steps: Readonly<Record<keyof Figures, readonly (number | null)[]>>
  /** Rates of the last 10 to 20 s; TTFT and shares of the last minute. */
  readonly now: Figures
  /** Stages before the first token, over 15 minutes. */
  readonly stages: Readonly<Record<string, { readonly p50Ms: number; readonly p95Ms: number }>>
  /** Requests by predicted / actual TTFT, over 15 minutes: counts up to each limit, and beyond. */
  readonly ttftErrors: { readonly limits: readonly number[]; readonly counts: readonly number[] }
}

type SlicesView = Pick<HistoryView, 'stages' | 'ttftErrors'>

interface PoolEntry {
  readonly steps: Map<number, HistoryStep>
  readonly slices: Map<number, HistorySlice>
  /** Steps that end before are complete. */
  completeUntil: number
}

const startOf = (now: number): number => now - (now % STEP_MS)

/** Keeps the histories of pools, so that each view asks them only for the newest steps. */
export class FleetHistory {
  readonly #pools = new Map<string, PoolEntry>()
  readonly #points = new Map<number, Figures>()
  #slices: { readonly at: number; readonly view: SlicesView } | null = null

  /** Start of the steps that the pool has to send. */
  since(pool: string): number {
    return this.#pools.get(pool)?.completeUntil ?? 0
  }

  /** Adopts what a pool sent for `since`. */
  add(pool: string, { steps, slices }: PoolHistory, now: number): void {
    const known = this.#pools.get(pool) ?? { steps: new Map(), slices: new Map(), completeUntil: 0 }
    this.#pools.set(pool, known)
    for (const step of steps) {
      known.steps.set(step.at, step)
      this.#points.delete(step.at)
    }
    for (const slice of slices) known.slices.set(slice.at, slice)
    // The step before the current one may still get what is on its way.
    known.completeUntil = startOf(now) - STEP_MS
    for (const at of known.steps.keys()) if (at < startOf(now) - SPAN_MS) known.steps.delete(at)
    for (const at of known.slices.keys()) if (at + SLICE_MS < now - SPAN_MS) known.slices.delete(at)
  }

  view(ended: EndedByStep, now: number): HistoryView {
    const last = startOf(now)
    const from = Math.max(last - SPAN_MS, this.#firstAt(ended) ?? last)
    const points: Figures[] = []
    for (let at = from; at < last; at += STEP_MS) points.push(this.#point(at, ended, last))
    for (const at of this.#points.keys()) if (at < from) this.#points.delete(at)
    const column = (name: keyof Figures) => points.map((point) => point[name])
    const recent = this.#figures(this.#stepsFrom(last - RECENT_STEPS * STEP_MS), 0, [])
    const rates = this.#figures(
      this.#stepsFrom(last - STEP_MS),
      Math.min(now - last + STEP_MS, now - from),
      endedFrom(ended, last - STEP_MS),
    )
    return {
      stepMs: STEP_MS,
      from,
      steps: Object.fromEntries(FIGURES.map((name) => [name, column(name)])) as unknown as HistoryView['steps'],
      now: {
        ...recent,
        requestsPerS: rates.requestsPerS,
        outputTokensPerS: rates.outputTokensPerS,
        rejectedPerS: rates.rejectedPerS,
        queueS: rates.queueS,
        kvUsage: rates.kvUsage,
        failedShare: failedShare(endedFrom(ended, last - RECENT_STEPS * STEP_MS)),
      },
      ...this.#slicesView(last),
    }
  }

  #firstAt(ended: EndedByStep): number | null {
    const starts = [...this.#pools.values()].flatMap(({ steps }) => [...steps.keys()])
    const all = [...starts, ...Object.keys(ended).map(Number)]
    return all.length === 0 ? null : Math.min(...all)
  }

  #stepsFrom(at: number): HistoryStep[] {
    return [...this.#pools.values()].flatMap(({ steps }) => [...steps.values()].filter((step) => step.at >= at))
  }

  #point(at: number, ended: EndedByStep, last: number): Figures {
    const known = this.#points.get(at)
    if (known !== undefined) return known
    const steps = [...this.#pools.values()].flatMap((pool) => pool.steps.get(at) ?? [])
    const point = this.#figures(steps, STEP_MS, [ended[at] ?? [0, 0, 0]])
    // The newest step may still get requests that other processes count.
    if (at < last - STEP_MS) this.#points.set(at, point)
    return point
  }

  #figures(steps: readonly HistoryStep[], lengthMs: number, ended: readonly EndedCounts[]): Figures {
    const perS = (total: number) => (lengthMs > 0 ? (1000 * total) / lengthMs : null)
    const sum = steps.length === 0 ? null : mergeSteps(steps)
    const quantile = (q: number) => (sum === null ? null : quantileOf(sum.ttft, q))
    return {
      requestsPerS: perS(sum?.requests ?? 0),
      failedShare: failedShare(ended),
      rejectedPerS: perS(ended.reduce((total, [, , rejected]) => total + rejected, 0)),
      outputTokensPerS: perS(sum?.outputTokens ?? 0),
      ttftP50Ms: quantile(0.5),
      ttftP95Ms: quantile(0.95),
      ttftP99Ms: quantile(0.99),
      withinSloShare: sum === null || sum.judged === 0 ? null : 1 - sum.late / sum.judged,
      queueS: sum?.queueS ?? null,
      kvUsage: sum?.kvUsage ?? null,
    }
  }

  /** Merged once per step: the sketches of all stages are many. */
  #slicesView(last: number): SlicesView {
    if (this.#slices?.at === last) return this.#slices.view
    const slices = [...this.#pools.values()].flatMap((pool) => [...pool.slices.values()])
    const { stages, errors } = slices.length === 0 ? { stages: {}, errors: emptyErrors() } : mergeSlices(slices)
    const quantiles = Object.entries(stages).map(
      ([stage, data]) => [stage, { p50Ms: quantileOf(data, 0.5) ?? 0, p95Ms: quantileOf(data, 0.95) ?? 0 }] as const,
    )
    const view = { stages: Object.fromEntries(quantiles), ttftErrors: { limits: ERROR_LIMITS, counts: errors } }
    this.#slices = { at: last, view }
    return view
  }
}

const FIGURES: readonly (keyof Figures)[] = [
  'requestsPerS',
  'failedShare',
  'rejectedPerS',
  'outputTokensPerS',
  'ttftP50Ms',
  'ttftP95Ms',
  'ttftP99Ms',
  'withinSloShare',
  'queueS',
  'kvUsage',
]

const endedFrom = (ended: EndedByStep, from: number): EndedCounts[] =>
  Object.entries(ended).flatMap(([at, counts]) => (Number(at) >= from ? [counts] : []))

function failedShare(ended: readonly EndedCounts[]): number | null {
  const tried = ended.reduce((sum, [all, , rejected]) => sum + all - rejected, 0)
  return tried === 0 ? null : ended.reduce((sum, [, failed]) => sum + failed, 0) / tried
}
