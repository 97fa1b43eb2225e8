/** Rates, first tokens and queues of a pool over the last 15 minutes, in bounded steps. */
import type { SloConfig, StageTimes } from '../contract/contract.ts'
import { Sketch, type SketchData } from './sketch.ts'

export const STEP_MS = 10_000
/** 15 minutes, without the current step. */
export const STEPS = 90
/** Stages and prediction errors are kept per slice: their sketches are too many for each step. */
export const SLICE_MS = 60_000
/** One more than 15 minutes, because the first one is partly older. */
const SLICES = 16

/** Totals of one step. Plain data. */
export interface HistoryStep {
  /** Start, ms since the epoch; a multiple of `STEP_MS`. */
  readonly at: number
  /** Requests placed for the first time. */
  readonly requests: number
  readonly outputTokens: number
  /** First tokens, ms. */
  readonly ttft: SketchData
  /** First tokens with an objective, and those that exceeded it. */
  readonly judged: number
  readonly late: number
  /** Longest prefill queue of an engine; null: unknown. */
  readonly queueS: number | null
  /** Highest KV cache use of an engine; null: none reported. */
  readonly kvUsage: number | null
}

/** Totals of one slice. Plain data. */
export interface HistorySlice {
  /** Start, ms since the epoch; a multiple of `SLICE_MS`. */
  readonly at: number
  /** By stage, ms. */
  readonly stages: Readonly<Record<string, SketchData>>
  /** Requests by predicted / actual TTFT: counts up to each of `ERROR_LIMITS`, and beyond. */
  readonly errors: readonly number[]
}

export interface PoolHistory {
  readonly steps: readonly HistoryStep[]
  readonly slices: readonly HistorySlice[]
}

/** Upper limits of predicted / actual TTFT in the histogram of errors. */
export const ERROR_LIMITS = [0.25, 0.5, 0.67, 0.8, 0.9, 1.1, 1.25, 1.5, 2, 4] as const

interface Step {
  readonly at: number
  requests: number
  outputTokens: number
  readonly ttft: Sketch
  judged: number
  late: number
  queueS: number | null
  kvUsage: number | null
}

interface Slice {
  readonly at: number
  readonly stages: Map<string, Sketch>
  readonly errors: number[]
}

export interface FirstToken {
  readonly stages: StageTimes
  readonly promptTokens: number
  /** null: not predicted, or delayed by an earlier attempt. */
  readonly predictedTtftMs: number | null
}

/** Records the history of one pool. */
export class HistoryRecorder {
  readonly #steps: Step[] = []
  readonly #slices: Slice[] = []
  #slo: SloConfig | null = null
  #gaugedAt = -Infinity

  configure(slo: SloConfig | null): void {
    this.#slo = slo
  }

  requested(now: number): void {
    this.#step(now).requests += 1
  }

  output(tokens: number, now: number): void {
    this.#step(now).outputTokens += tokens
  }

  firstToken({ stages, promptTokens, predictedTtftMs }: FirstToken, now: number): void {
    const ttftMs = stages.ttft ?? stages.first_byte
    if (ttftMs === undefined) return
    const step = this.#step(now)
    step.ttft.add(ttftMs)
    const limitMs = limitOf(this.#slo, promptTokens)
    if (limitMs !== null) {
      step.judged += 1
      if (ttftMs > limitMs) step.late += 1
    }
    const slice = this.#slice(now)
    const times: Readonly<Record<string, number>> = stages
    for (const stage in times) sketchOf(slice, stage).add(times[stage]!)
    const sentMs = ttftMs - (stages.gateway_queue ?? 0)
    if (predictedTtftMs !== null && sentMs > 0) slice.errors[binOf(predictedTtftMs / sentMs)]! += 1
  }

  /** Whether a second has passed since the last gauges: reading them takes a pass over all engines. */
  isGaugeDue(now: number): boolean {
    return now - this.#gaugedAt >= 1_000
  }

  gauges({ queueS, kvUsage }: Pick<HistoryStep, 'queueS' | 'kvUsage'>, now: number): void {
    this.#gaugedAt = now
    const step = this.#step(now)
    step.queueS = most(step.queueS, queueS)
    step.kvUsage = most(step.kvUsage, kvUsage)
  }

  /** The parts that end after `since`, ms since the epoch, and not before the last 15 minutes. */
  data(since: number, now: number): PoolHistory {
    const from = Math.max(since, now - STEP_MS * STEPS)
    return {
      steps: this.#steps.filter(({ at }) => at + STEP_MS > from).map((step) => ({ ...step, ttft: step.ttft.data() })),
      slices: this.#slices
        .filter(({ at }) => at + SLICE_MS > from)
        .map(({ at, stages, errors }) => ({
          at,
          stages: Object.fromEntries([...stages].map(([stage, sketch]) => [stage, sketch.data()])),
          errors: [...errors],
        })),
    }
  }

  #step(now: number): Step {
    const at = now - (now % STEP_MS)
    const last = this.#steps.at(-1)
    // A clock that went back adds to the last step.
    if (last !== undefined && at <= last.at) return last
    const step: Step = {
      at,
      requests: 0,
      outputTokens: 0,
      ttft: new Sketch(),
      judged: 0,
      late: 0,
      queueS: null,
      kvUsage: null,
    }
    this.#steps.push(step)
    if (this.#steps.length > STEPS + 1) this.#steps.shift()
    return step
  }

  #slice(now: number): Slice {
    const at = now - (now % SLICE_MS)
    const last = this.#slices.at(-1)
    if (last !== undefined && at <= last.at) return last
    const slice: Slice = { at, stages: new Map(), errors: emptyErrors() }
    this.#slices.push(slice)
    if (this.#slices.length > SLICES) this.#slices.shift()
    return slice
  }
}

export const emptyErrors = (): number[] => Array.from({ length: ERROR_LIMITS.length + 1 }, () => 0)

function binOf(ratio: number): number {
  const at = ERROR_LIMITS.findIndex((limit) => ratio <= limit)
  return at < 0 ? ERROR_LIMITS.length : at
}

function limitOf(slo: SloConfig | null, promptTokens: number): number | null {
  if (slo === null || slo.ttftMs === null) return null
  return slo.ttftMs + ((slo.ttftMsPer1kTokens ?? 0) * promptTokens) / 1000
}

function sketchOf({ stages }: Slice, stage: string): Sketch {
  const known = stages.get(stage)
  if (known !== undefined) return known
  const sketch = new Sketch()
  stages.set(stage, sketch)
  return sketch
}

/** The larger value; null: both are unknown. */
const most = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.max(a, b)

/** Adds histories of different processes, or of the parts of a pool. */
export function mergeHistories(all: readonly PoolHistory[]): PoolHistory {
  return {
    steps: merged(
      all.map(({ steps }) => steps),
      mergeSteps,
    ),
    slices: merged(
      all.map(({ slices }) => slices),
      mergeSlices,
    ),
  }
}

/** The parts of a history that end after `since`, ms since the epoch. */
export const historyFrom = ({ steps, slices }: PoolHistory, since: number): PoolHistory => ({
  steps: steps.filter(({ at }) => at + STEP_MS > since),
  slices: slices.filter(({ at }) => at + SLICE_MS > since),
})

function merged<Part extends { readonly at: number }>(
  lists: readonly (readonly Part[])[],
  add: (parts: readonly Part[]) => Part,
): Part[] {
  const byStart = new Map<number, Part[]>()
  for (const part of lists.flat()) byStart.set(part.at, [...(byStart.get(part.at) ?? []), part])
  return [...byStart.values()].map((parts) => (parts.length === 1 ? parts[0]! : add(parts))).sort((a, b) => a.at - b.at)
}

/** Adds steps, at least one, with the start of the first. */
export function mergeSteps(steps: readonly HistoryStep[]): HistoryStep {
  const sum = (of: (step: HistoryStep) => number) => steps.reduce((total, step) => total + of(step), 0)
  const highest = (of: (step: HistoryStep) => number | null) =>
    steps.reduce<number | null>((value, step) => most(value, of(step)), null)
  return {
    at: steps[0]!.at,
    requests: sum(({ requests }) => requests),
    outputTokens: sum(({ outputTokens }) => outputTokens),
    ttft: mergeSketches(steps.map(({ ttft }) => ttft)),
    judged: sum(({ judged }) => judged),
    late: sum(({ late }) => late),
    queueS: highest(({ queueS }) => queueS),
    kvUsage: highest(({ kvUsage }) => kvUsage),
  }
}

/** Adds slices, at least one, with the start of the first. */
export function mergeSlices(slices: readonly HistorySlice[]): HistorySlice {
  const names = new Set(slices.flatMap(({ stages }) => Object.keys(stages)))
  return {
    at: slices[0]!.at,
    stages: Object.fromEntries(
      Array.from(names, (name) => [name, mergeSketches(slices.flatMap(({ stages }) => stages[name] ?? []))]),
    ),
    errors: slices.reduce((sum, { errors }) => sum.map((count, at) => count + (errors[at] ?? 0)), emptyErrors()),
  }
}

function mergeSketches(all: readonly SketchData[]): SketchData {
  const sketch = new Sketch()
  for (const one of all) sketch.merge(one)
  return sketch.data()
}
