/**
 * Admission control under overload, in virtual time: goodput of `predicted` with `slo` beside every shipped policy and
 * the static rules with true engine state, at 0.7 to 4 times the sustained load.
 * `npm run bench -- overload [MOONCAKE.jsonl AGENTIC.jsonl] [--seeds N] [--policies all] [--half both] [--json
 * FILE]`. A generated workload always runs; with traces, the figures without `generated` in their name cover the traces alone.
 * `npm run bench -- overload --http` measures refusals over HTTP only, in real time;
 * `--peers [FOLDER]` measures goodput over HTTP beside vllm-router and SMG, installed as for `npm run bench -- peers`.
 */
import { basename } from 'node:path'
import { profileNamed } from '../simulator/src/profiles.ts'
import { fleetOf, type FleetPlan } from '../replay/src/replay/plan.ts'
import { speedsOn } from '../replay/src/replay/sustained-speed.ts'
import { shippedKinds, baselineKinds } from '../replay/src/replay/routers.ts'
import type { Job } from '../replay/src/replay/job.ts'
import { spread, type Trace } from '../replay/src/replay/trace.ts'
import { refusalsOverHttp } from './overload/http.ts'
import { isolation } from './overload/isolation.ts'
import { oracleKinds } from './overload/oracle.ts'
import { type OverloadFigures, overloadKind, QUEUE, runOnce, SLO } from './overload/run.ts'
import { pairedRow, pairsOf } from './overload/pairs.ts'
import { overloadBesidePeers } from './overload/peers.ts'
import { refusalUs } from './overload/refusal-cost.ts'
import { retryRows } from './overload/retries.ts'
import { workByWeight } from './overload/weights.ts'
import { workloadNamed } from './policies/workloads.ts'
import type { Bench, BenchRow } from './result.ts'
import { type Halves, halvesIn, halvesNamed, isSecondHalf, withSecondHalves } from './trace-halves.ts'

const LOW_LOAD = 0.7
const LOADS = [LOW_LOAD, 0.95, 1, 1.5, 2, 4]
const RETRY_LOADS = [1.5, 2, 4]
/** Loads at which the static rules with true engine state run. */
const ORACLE_LOAD = 4
const GENERATED_ORACLE_LOADS = [1.5, 4]
const GENERATED = 'prefixes'
/** In the headline, in the order of the arguments. */
const LABELS = ['mooncake', 'agentic']
/** Requests of the two traces that the goals are stated for. */
const REQUESTS = [3000, 2000]

interface Workload {
  readonly name: string
  /** Its name in the headline. */
  readonly label: string
  readonly trace: Trace
  readonly fleet: FleetPlan
}

const bench: Bench = async ({ flags, args, note }) => {
  if (flags['http'] !== undefined) return refusalsOverHttp(note)
  const { peers } = flags
  if (peers !== undefined) return overloadBesidePeers(note, typeof peers === 'string' ? peers : null)
  const seeds = Number(flags['seeds'] ?? 3)
  const others =
    flags['policies'] === 'all'
      ? [...shippedKinds, ...baselineKinds]
      : [shippedKinds.find(({ name }) => name === 'predicted')!]
  const rows: BenchRow[] = []
  const { traces, generated } = workloadsOf(args, halvesNamed(flags['half'], 'first'))
  const subjects = traces.length === 0 ? [generated] : traces
  const workloads = [...traces, generated]
  for (const { name, trace, fleet } of workloads) {
    const speedAt = speedsOn(fleet)
    for (const load of LOADS) {
      const own = [overloadKind('slo', SLO), overloadKind('slo_queue', SLO, { queue: QUEUE })]
      const oracleLoads = name === GENERATED ? GENERATED_ORACLE_LOADS : [ORACLE_LOAD]
      const kinds = [...own, ...others, ...(oracleLoads.includes(load) ? oracleKinds : [])]
      const cells = Array.from({ length: seeds }, (_, at) => {
        const seed = at + 1
        return { trace: spread(trace, seed), fleet, load, seed, speedAt }
      })
      const jobs = new Map<string, readonly (readonly Job[])[]>()
      for (const kind of kinds) {
        note(`${name}, load ${load}, ${kind.name} …`)
        const figures = cells.map((cell) => runOnce({ ...cell, kind }))
        rows.push(rowOf(name, load, kind.name, figures))
        jobs.set(
          kind.name,
          figures.map((one) => one.jobs),
        )
      }
      if (RETRY_LOADS.includes(load)) rows.push(...retryRows(cells))
      if (load === LOW_LOAD) rows.push(pairedRow(name, load, pairsOf(jobs.get('slo')!, jobs.get('predicted')!)))
    }
  }
  note('isolation between two keys …')
  const isolated = subjects.map(({ trace, fleet }) => isolation(trace, fleet, seeds))
  note('two keys that wait …')
  const weighted = subjects.map(({ trace, fleet }) => workByWeight(trace, fleet))
  return {
    rows: [...rows, ...isolated.flatMap((one) => one.rows), ...weighted],
    headline: {
      ...figuresOfHalves(rows, subjects),
      ...generatedFigures(rows),
      ...isolated[0]!.headline,
      queue_weight_error_max: Math.max(...weighted.map((row) => Number(row['error']))),
      refusal_us: refusalUs(),
    },
  }
}

export default bench

function workloadsOf(
  files: readonly string[],
  halves: Halves,
): { readonly traces: Workload[]; readonly generated: Workload } {
  const fleet = fleetOf(8, { kind: 'vllm', profile: profileNamed('agentic') })
  const traces = files.flatMap((file, at) =>
    halvesIn(file, REQUESTS[at] ?? 2000, halves).map((trace) => ({
      name: trace.name,
      label: LABELS[at] ?? basename(file),
      fleet,
      trace,
    })),
  )
  return { traces, generated: { name: GENERATED, label: GENERATED, fleet, trace: workloadNamed(GENERATED).trace } }
}

function rowOf(trace: string, load: number, policy: string, figures: readonly OverloadFigures[]): BenchRow {
  const mean = (pick: (one: OverloadFigures) => number) =>
    figures.reduce((sum, one) => sum + pick(one), 0) / figures.length
  return {
    trace,
    load,
    policy,
    goodput: round(mean((one) => one.goodput)),
    refused: round(mean((one) => one.refused)),
    ttft_mean_ms: Math.round(mean((one) => one.ttftMeanMs)),
    ttft_p99_ms: Math.round(mean((one) => one.ttftP99Ms)),
    itl_ms: round(mean((one) => one.itlMeanMs)),
    hit: round(mean((one) => one.hit)),
    longest_decile_share: round(mean((one) => one.longestDecileShare)),
    useless_refusals: round(mean((one) => one.uselessRefusals)),
  }
}

const round = (value: number): number => Number(value.toFixed(3))

function rowIn(rows: readonly BenchRow[], trace: string, load: number): (policy: string) => BenchRow {
  return (policy) => rows.find((row) => row['trace'] === trace && row['load'] === load && row['policy'] === policy)!
}

/** Goodput relative to that of the best static rule with true engine state. */
function vsOracle(rows: readonly BenchRow[], trace: string, load: number): number {
  const find = rowIn(rows, trace, load)
  const best = Math.max(...oracleKinds.map(({ name }) => Number(find(name)['goodput'])))
  return Number(find('slo')['goodput']) / best
}

/** Figures of the traces; without traces those of the generated workload. */
function figuresOfHalves(rows: readonly BenchRow[], subjects: readonly Workload[]): Record<string, number> {
  const figures = (of: readonly Workload[]): Record<string, number> =>
    of.length === 0 ? {} : { ...headlineOf(rows, of), ...traceFigures(rows, of) }
  const second = subjects.filter(({ name }) => isSecondHalf(name))
  return withSecondHalves(figures(subjects.filter((one) => !second.includes(one))), figures(second))
}

function traceFigures(rows: readonly BenchRow[], workloads: readonly Workload[]): Record<string, number> {
  const traces = workloads.filter(({ name }) => name !== GENERATED)
  return Object.fromEntries(
    traces.map(({ name, label }) => [`goodput_at_1_5_${label}`, Number(rowIn(rows, name, 1.5)('slo')['goodput'])]),
  )
}

function generatedFigures(rows: readonly BenchRow[]): Record<string, number> {
  return Object.fromEntries(
    GENERATED_ORACLE_LOADS.map((load) => [
      `goodput_vs_oracle_at_${String(load).replace('.', '_')}_generated`,
      round(vsOracle(rows, GENERATED, load)),
    ]),
  )
}

function headlineOf(rows: readonly BenchRow[], workloads: readonly Workload[]): Record<string, number> {
  const names = workloads.map(({ name }) => name)
  const low = names.flatMap((name) => {
    const find = rowIn(rows, name, LOW_LOAD)
    return ['ttft_mean_ms', 'ttft_p99_ms'].map((key) => Number(find('slo')[key]) / Number(find('predicted')[key]))
  })
  const shares = names.flatMap((name) =>
    LOADS.filter((load) => load <= 1.5).map((load) => Number(rowIn(rows, name, load)('slo')['longest_decile_share'])),
  )
  return {
    goodput_vs_oracle_at_4: round(Math.min(...names.map((name) => vsOracle(rows, name, ORACLE_LOAD)))),
    low_load_ttft_ratio_max: round(Math.max(...low)),
    useless_refusals_at_0_95: Math.max(
      ...names.map((name) => Number(rowIn(rows, name, 0.95)('slo')['useless_refusals'])),
    ),
    longest_decile_share_min: round(Math.min(...shares)),
  }
}
