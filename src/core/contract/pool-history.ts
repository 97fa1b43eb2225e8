import type { SketchData } from './sketch-data.ts'

export const STEP_MS = 10_000

/** 15 minutes, without the current step. */
export const STEPS = 90

/** Stages and prediction errors are kept per slice: their sketches are too many for each step. */
export const SLICE_MS = 60_000

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

export const emptyErrors = (): number[] => Array.from({ length: ERROR_LIMITS.length + 1 }, () => 0)

export const SPAN_MS = STEP_MS * STEPS
