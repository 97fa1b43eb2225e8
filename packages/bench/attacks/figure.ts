import type { BenchRow } from '../result.ts'

/** One measured value beside its goal. */
export interface Figure {
  readonly attack: string
  /** Name in snake_case with the unit at the end. */
  readonly figure: string
  readonly value: number | null
  /** The largest value that meets the goal; absent: reported only. */
  readonly goal?: number
  /** Circumstances a reader needs to judge the value. */
  readonly note?: string
}

export function rowOf({ attack, figure, value, goal, note }: Figure): BenchRow {
  const verdict = goal === undefined ? '' : value === null ? 'not measured' : value <= goal ? 'met' : 'MISSED'
  return { attack, figure, value, goal: goal ?? null, verdict, note: note ?? '' }
}

export const worst = (figures: readonly Figure[], name: string): number =>
  Math.max(...figures.filter(({ figure }) => figure === name).map(({ value }) => value ?? Number.POSITIVE_INFINITY))

export const mib = (bytes: number | null): number | null => (bytes === null ? null : Math.round(bytes / 2 ** 20))
