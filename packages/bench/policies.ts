/**
 * Compares policies by TTFT: a reduced run of `firstlight replay`, in virtual time.
 * `npm run bench -- policies [TRACE.jsonl ...] [--workloads LIST] [--loads LIST] [--requests N] [--seeds N] [--policies
 * LIST] [--half first|second|both]`
 * It runs the first N requests (1500) of each half of the traces, by time, on engines whose caches hold a fraction of the prompts, or generated
 * workloads, by default `rounds_250,prefixes`: long conversations, and prompts that share a few prefixes.
 */
import { type FleetPlan, replay } from '../replay/src/replay/plan.ts'
import { speedsOn } from '../replay/src/replay/sustained-speed.ts'
import { routerKinds, routerNamed, shippedKinds } from '../replay/src/replay/routers.ts'
import type { RouterKind } from '../replay/src/replay/router.ts'
import { deviation, type Figures, figuresOf } from '../replay/src/replay/statistics.ts'
import { spread, type Trace } from '../replay/src/replay/trace.ts'
import { type Workload, workloadNamed, workloadsIn } from './policies/workloads.ts'
import type { Bench, BenchRow } from './result.ts'
import { type Halves, halvesNamed, isSecondHalf, withSecondHalves } from './trace-halves.ts'

const LOADS = [0.3, 0.7, 0.95]
const SLO = { ttftMs: 5000, itlMs: 100 }

const bench: Bench = async ({ flags, args, note }) => {
  const count = Number(flags['requests'] ?? 1500)
  const seeds = Number(flags['seeds'] ?? 1)
  const kinds = kindsOf(flags['policies'])
  const loads = typeof flags['loads'] === 'string' ? flags['loads'].split(',').map(Number) : LOADS
  const rows: BenchRow[] = []
  for (const { trace, fleet } of workloadsOf(args, {
    names: flags['workloads'],
    count,
    halves: halvesNamed(flags['half'], 'both'),
  })) {
    const speedAt = speedsOn(fleet)
    for (const load of loads) {
      const figures = new Map<string, Figures[]>()
      for (let seed = 1; seed <= seeds; seed += 1) {
        note(`${trace.name}, load ${load}, seed ${seed} …`)
        for (const one of runAll({ trace: spread(trace, seed), fleet, kinds, load, seed, speedAt }))
          figures.set(one.policy, [...(figures.get(one.policy) ?? []), one])
      }
      rows.push(
        ...[...figures]
          .map(([policy, found]) => rowOf(trace.name, load, policy, found))
          .sort((one, other) => Number(one['ttft_mean_ms']) - Number(other['ttft_mean_ms'])),
      )
    }
  }
  return {
    rows,
    headline: withSecondHalves(headlineOf(rows.filter((row) => !isHeldOut(row))), headlineOf(rows.filter(isHeldOut))),
  }
}

export default bench

const isHeldOut = (row: BenchRow): boolean => isSecondHalf(String(row['trace']))

function kindsOf(flag: string | true | undefined): readonly RouterKind[] {
  if (flag === undefined || flag === true)
    return [
      ...shippedKinds,
      routerNamed('cache_aware'),
      routerNamed('llm_d'),
      routerNamed('dynamo_today'),
      routerNamed('exact'),
    ]
  return flag === 'all' ? routerKinds : flag.split(',').map(routerNamed)
}

interface WorkloadChoice {
  /** Generated workloads, if there are no files. */
  readonly names: string | true | undefined
  /** Requests of each half of a file. */
  readonly count: number
  readonly halves: Halves
}

function workloadsOf(files: readonly string[], { names, count, halves }: WorkloadChoice): Workload[] {
  if (files.length > 0) return files.flatMap((file) => workloadsIn(file, count, halves))
  return (typeof names === 'string' ? names : 'rounds_250,prefixes').split(',').map(workloadNamed)
}

interface Cell {
  readonly trace: Trace
  readonly fleet: FleetPlan
  readonly kinds: readonly RouterKind[]
  readonly load: number
  readonly seed: number
  readonly speedAt: ReturnType<typeof speedsOn>
}

function runAll({ trace, fleet, kinds, load, seed, speedAt }: Cell): Figures[] {
  const closedLoop = trace.requests.some(({ chain }) => chain !== null)
  const pace = { closedLoop, concurrency: Infinity, holdAt: null, seed, clockMs: null }
  const speed = speedAt(load, trace, pace)
  return kinds.map((kind) => figuresOf(replay(trace, fleet, kind, { ...pace, speed }), SLO))
}

function rowOf(trace: string, load: number, policy: string, figures: readonly Figures[]): BenchRow {
  const mean = (pick: (one: Figures) => number) => figures.reduce((sum, one) => sum + pick(one), 0) / figures.length
  const apart = deviation(figures.map((one) => one.ttftMeanMs))
  return {
    trace,
    load,
    policy,
    ttft_mean_ms: Math.round(mean((one) => one.ttftMeanMs)),
    ...(apart === null ? {} : { ttft_mean_sd_ms: Math.round(apart) }),
    ttft_p99_ms: Math.round(mean((one) => one.ttftP99Ms)),
    hit: Number(mean((one) => one.hit).toFixed(3)),
    itl_ms: Number(mean((one) => one.itlMeanMs).toFixed(1)),
    goodput: Number(mean((one) => one.goodput).toFixed(3)),
  }
}

/** How `predicted` compares: worst cell against the best other policy, and against `exact` at 70 %; 1 is equal. */
function headlineOf(rows: readonly BenchRow[]): Record<string, number> {
  const marks = new Set(['exact', 'least_work'])
  const ratios = (figure: string, against: (rest: readonly BenchRow[]) => readonly BenchRow[]) =>
    rows.flatMap((row) => {
      if (row['policy'] !== 'predicted') return []
      const rest = against(
        rows.filter((other) => other !== row && other['trace'] === row['trace'] && other['load'] === row['load']),
      )
      return rest.length === 0 ? [] : [Number(row[figure]) / Math.min(...rest.map((other) => Number(other[figure])))]
    })
  const others = (rest: readonly BenchRow[]) => rest.filter((row) => !marks.has(String(row['policy'])))
  const figures = {
    predicted_mean_vs_best: ratios('ttft_mean_ms', others),
    predicted_p99_vs_best: ratios('ttft_p99_ms', others),
    predicted_mean_vs_exact_at_70: ratios('ttft_mean_ms', (rest) =>
      rest.filter((row) => row['policy'] === 'exact' && row['load'] === 0.7),
    ),
  }
  return Object.fromEntries(
    Object.entries(figures).flatMap(([name, values]) => (values.length === 0 ? [] : [[name, Math.max(...values)]])),
  )
}
