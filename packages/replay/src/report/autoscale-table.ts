import { table } from '../../../../src/cli/commands/text-table.ts'
import type { AutoscaleRow } from '../autoscale/autoscale-row.ts'

/** Columns of the replicas over time. */
const STEPS = 24

/** Formats the table of `replay --autoscale`, and the replicas of each rule over time. */
export function autoscaleTable(rows: readonly AutoscaleRow[]): string[] {
  const head = ['rule', 'keeps slo %', 'refused %', 'engine hours', 'vs optimum', 'replicas mean', 'max']
  const figures = rows.map((row) => [
    row.rule,
    percent(row.slo_kept),
    percent(row.refused),
    row.engine_hours.toFixed(2),
    row.hours_vs_optimum.toFixed(2),
    row.replicas_mean.toFixed(1),
    String(row.replicas_max),
  ])
  const minutes = Math.max(...rows.map((row) => row.replicas_by_minute.length))
  const step = Math.max(1, Math.ceil(minutes / STEPS))
  const series = rows.map((row) => [
    row.rule,
    ...row.replicas_by_minute.filter((_, minute) => minute % step === 0).map(String),
  ])
  return [...table([head, ...figures]), '', `Replicas that serve, every ${step} min`, ...table(series)]
}

const percent = (share: number): string => (100 * share).toFixed(2)
