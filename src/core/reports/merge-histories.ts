import {
  emptyErrors,
  type HistorySlice,
  type HistoryStep,
  type PoolHistory,
  SLICE_MS,
  STEP_MS,
} from '../contract/pool-history.ts'
import type { SketchData } from '../contract/sketch-data.ts'
import { Sketch } from './sketch.ts'

/** The larger value; null: both are unknown. */
export const maxKnown = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? (a ?? b) : Math.max(a, b)

/** Adds histories of different processes, or of the parts of a pool. */
export function mergeHistories(all: readonly PoolHistory[]): PoolHistory {
  return {
    steps: mergeByStart(
      all.map(({ steps }) => steps),
      mergeSteps,
    ),
    slices: mergeByStart(
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

function mergeByStart<Part extends { readonly at: number }>(
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
    steps.reduce<number | null>((value, step) => maxKnown(value, of(step)), null)
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
