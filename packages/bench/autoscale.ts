/**
 * The capacity rule of a pool with `slo` as an autoscaler, in virtual time, against scaling on queue length and KV cache
 * use and against the offline optimum (docs/replay.md).
 * `npm run bench -- autoscale [MOONCAKE.jsonl AGENTIC.jsonl] [--seeds N] [--quick] [--windows] [--json FILE]`. A generated hour
 * always runs. `--quick`: ten minutes of each, one seed. `--windows`: also each rule with the stabilization window of the
 * others, 300 s for the capacity and 60 s for the rest.
 */
import { basename } from 'node:path'
import type { AutoscaleRow } from '../replay/src/autoscale/autoscale-row.ts'
import type { Grade, QueueSetting } from './autoscale/grade.ts'
import type { GradeJob } from './autoscale/grade-thread.ts'
import { onThreads } from './autoscale/on-threads.ts'
import { GENERATED } from './autoscale/workloads.ts'
import type { Bench, BenchRow } from './result.ts'

/** Traffic of the day before, on which the queue rule is tuned. */
const TUNING_SEED = 101

const bench: Bench = async ({ flags, args, note }) => {
  const quick = flags['quick'] !== undefined
  const windows = flags['windows'] !== undefined
  const seeds = Number(flags['seeds'] ?? (quick ? 1 : 3))
  const sources = [...args, GENERATED]
  const tuning = sources.map((source): GradeJob => ({ source, seed: TUNING_SEED, quick, windows, queue: null }))
  const settings = await onThreads<QueueSetting>(tuning, ({ source }, { target, refuses }) =>
    note(`${basename(source)}: queue rule with ${target} waiting requests, ${refuses ? 'refusing' : 'all wait'}`),
  )
  const jobs = sources.flatMap((source, at) =>
    Array.from({ length: seeds }, (_, seed): GradeJob => ({
      source,
      seed: seed + 1,
      quick,
      windows,
      queue: settings[at]!,
    })),
  )
  const grades = await onThreads<Grade>(jobs, ({ source, seed }) => note(`${basename(source)}: seed ${seed} done`))
  const workloads = [...new Set(grades.map(({ workload }) => workload))]
  const rows = workloads.flatMap((workload, at) =>
    meansOf(
      workload,
      grades.filter((one) => one.workload === workload),
      settings[at]!,
    ),
  )
  return { rows, headline: headlineOf(rows, workloads) }
}

export default bench

function meansOf(workload: string, grades: readonly Grade[], queue: QueueSetting): BenchRow[] {
  return grades[0]!.rows.map(({ rule }) => {
    const own = grades.map(({ rows }) => rows.find((row) => row.rule === rule)!)
    const mean = (pick: (row: AutoscaleRow) => number): number =>
      round(own.reduce((sum, row) => sum + pick(row), 0) / own.length)
    return {
      workload,
      rule,
      setting: rule.startsWith('queue_tuned')
        ? `${queue.target} waiting, ${queue.refuses ? 'refuses' : 'all wait'}`
        : '',
      slo_kept: mean((row) => row.slo_kept),
      refused: mean((row) => row.refused),
      engine_hours: mean((row) => row.engine_hours),
      hours_vs_optimum: mean((row) => row.hours_vs_optimum),
      replicas_mean: mean((row) => row.replicas_mean),
      replicas_max: Math.max(...own.map((row) => row.replicas_max)),
    }
  })
}

const round = (value: number): number => Number(value.toFixed(4))

/** The worst of all workloads, and each by its name. */
function headlineOf(rows: readonly BenchRow[], workloads: readonly string[]): Record<string, number> {
  const figure = (workload: string, rule: string, key: string): number =>
    Number(rows.find((row) => row['workload'] === workload && row['rule'] === rule)![key])
  const ratio = (workload: string, key: string): number =>
    round(figure(workload, 'capacity', key) / figure(workload, 'queue_tuned', key))
  const kept = workloads.map((workload) => ratio(workload, 'slo_kept'))
  const hours = workloads.map((workload) => ratio(workload, 'engine_hours'))
  const optimum = workloads.map((workload) => figure(workload, 'capacity', 'hours_vs_optimum'))
  return {
    slo_kept_vs_queue_rule: Math.min(...kept),
    engine_hours_vs_queue_rule: Math.max(...hours),
    engine_hours_vs_optimum: Math.max(...optimum),
    ...Object.fromEntries(
      workloads.flatMap((workload, at) => [
        [`slo_kept_vs_queue_rule_${workload}`, kept[at]!],
        [`engine_hours_vs_queue_rule_${workload}`, hours[at]!],
        [`engine_hours_vs_optimum_${workload}`, optimum[at]!],
      ]),
    ),
  }
}
