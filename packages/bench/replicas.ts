/**
 * Several gateways (replicas) before the same engines behind one load balancer, in virtual time. Arrangements:
 * `one`: one gateway, the reference.
 * `alone`: replicas that know nothing of each other.
 * `log`: replicas that send each other their choices, which arrive after a delay.
 * `dies`, `restarts`: as `log`, and one crashes in the middle so that its bookings expire, or is replaced by one with
 * some of its state.
 * `leader`: all ask one, which chooses as `one` does, a round trip later.
 *
 * `npm run bench -- replicas [TRACE.jsonl ...] [--workloads LIST] [--requests N] [--loads LIST] [--replicas LIST]
 * [--balancing random|turn|client] [--delays LIST] [--policies LIST] [--arrangements alone,log,leader,dies,restarts]
 * [--seeds N]`: medians over seeds. Ratios are of mean times to the first token, seed by seed, and `late_ratio` is that
 * of the half that was sent last. `unreceived`: choices that others make while one is on its way to them.
 * `--part carrier` alone measures delay and CPU over a real Valkey server, whose delay is the first of the delays.
 * `--part cost` measures in real time what a booking of another replica costs beside an own one.
 */
import { replay } from '../replay/src/replay/plan.ts'
import { speedsOn } from '../replay/src/replay/sustained-speed.ts'
import { type BalancingMode, ReplicatedRouter } from '../replay/src/replay/replicated-router.ts'
import type { RouterKind } from '../replay/src/replay/router.ts'
import type { RunResult } from '../replay/src/replay/run.ts'
import { figuresOf } from '../replay/src/replay/statistics.ts'
import { median } from './median.ts'
import { type Arrangement, arrangementsOf, KINDS, ONE } from './replicas/arrangements.ts'
import { measureCarrier } from './replicas/carrier.ts'
import { costRows } from './replicas/cost.ts'
import { type SeededWorkload, seededIn, seededNamed } from './replicas/workloads.ts'
import type { Bench, BenchOptions, BenchRow } from './result.ts'

const SLO = { ttftMs: 5000, itlMs: 100 }
const ROUND_TRIPS_MS = [0.3, 1]

const bench: Bench = async (options) => {
  if (options.flags['part'] === 'cost') return { rows: costRows(options.note), headline: {} }
  options.note('a real server, three followers …')
  const carrier = await measureCarrier({
    perS: Number(options.flags['per-s'] ?? 1_667),
    seconds: Number(options.flags['seconds'] ?? 6),
    warmS: Number(options.flags['warm'] ?? 25),
    followers: 3,
  })
  if (options.flags['part'] === 'carrier') return { rows: [carrier.row], headline: carrier.headline }
  const plan = planOf(options, Math.max(0.1, Math.round(carrier.headline['received_p50_ms']! * 10) / 10))
  const rows: BenchRow[] = [carrier.row]
  for (const workload of plan.workloads) {
    const speedAt = speedsOn(workload.fleet)
    for (const load of plan.loads) {
      for (const policy of plan.policies)
        rows.push(...cellRows({ workload, load, policy, speedAt }, plan, options.note))
    }
  }
  const [measuredMs] = plan.delaysMs as [number]
  return { rows, headline: { ...headlineOf(rows, measuredMs), ...carrier.headline } }
}

export default bench

interface Plan {
  readonly workloads: readonly SeededWorkload[]
  readonly loads: readonly number[]
  readonly policies: readonly string[]
  readonly replicas: readonly number[]
  readonly delaysMs: readonly number[]
  readonly kinds: readonly string[]
  readonly balancing: BalancingMode
  readonly seeds: number
}

/** @param measuredMs delay over the real server, which comes first unless `--delays` are given */
function planOf({ flags, args }: BenchOptions, measuredMs: number): Plan {
  const words = (flag: string, otherwise: string) => String(flags[flag] ?? otherwise).split(',')
  const count = Number(flags['requests'] ?? 1500)
  return {
    workloads:
      args.length > 0
        ? args.map((file) => seededIn(file, count))
        : words('workloads', 'prefixes,fan_out,rounds_varied_tight').map(seededNamed),
    loads: words('loads', '0.7').map(Number),
    policies: words('policies', 'predicted'),
    replicas: words('replicas', '3').map(Number),
    delaysMs:
      flags['delays'] === undefined
        ? [...new Set([measuredMs, 0, 0.3, 1, 5, 20, 100])]
        : words('delays', '').map(Number),
    kinds: words('arrangements', ['leader', ...KINDS].join(',')),
    balancing: words('balancing', 'random')[0] as BalancingMode,
    seeds: Number(flags['seeds'] ?? 3),
  }
}

interface Cell {
  readonly workload: SeededWorkload
  readonly load: number
  readonly policy: string
  readonly speedAt: ReturnType<typeof speedsOn>
}

interface RunFigures {
  readonly meanMs: number
  readonly p99Ms: number
  readonly hit: number
  readonly lateMeanMs: number
  readonly perS: number
}

function cellRows({ workload, load, policy, speedAt }: Cell, plan: Plan, note: (line: string) => void): BenchRow[] {
  const arrangements = [ONE, ...arrangementsIn(plan, Math.floor(workload.traceOf(1).requests.length / 2))]
  const runs = arrangements.map((): RunFigures[] => [])
  for (let seed = 1; seed <= plan.seeds; seed += 1) {
    note(`${workload.name}, load ${load}, ${policy}, seed ${seed} …`)
    const trace = workload.traceOf(seed)
    const closedLoop = trace.requests.some(({ chain }) => chain !== null)
    const pace = { closedLoop, concurrency: Infinity, holdAt: null, seed, clockMs: null }
    const speed = speedAt(load, trace, pace)
    for (const [at, one] of arrangements.entries())
      runs[at]!.push(
        runFiguresOf(
          replay(trace, workload.fleet, kindOf(one, { policy, balancing: plan.balancing, seed }), { ...pace, speed }),
        ),
      )
  }
  const cell = { workload: workload.name, load, policy, balancing: plan.balancing }
  const rows = arrangements.map((one, at) => ({
    ...cell,
    replicas: one.replicas,
    arrangement: one.name,
    delay_ms: one.delayMs,
    unreceived: unreceivedBy(one, runs[0]!),
    ...figuresIn(runs[at]!, runs[0]!),
  }))
  const leader = plan.kinds.includes('leader')
    ? ROUND_TRIPS_MS.map((ms) => ({
        ...cell,
        replicas: null,
        arrangement: 'leader',
        delay_ms: ms,
        unreceived: 0,
        ...figuresIn(later(runs[0]!, ms), runs[0]!),
      }))
    : []
  return [rows[0]!, ...leader, ...rows.slice(1)]
}

function arrangementsIn({ replicas, kinds, delaysMs }: Plan, middle: number): Arrangement[] {
  return replicas.flatMap((count) =>
    KINDS.flatMap((kind) => (kinds.includes(kind) ? arrangementsOf(kind, { replicas: count, delaysMs, middle }) : [])),
  )
}

function kindOf(
  { name, replicas, delayMs, upset }: Arrangement,
  { policy, balancing, seed }: { readonly policy: string; readonly balancing: BalancingMode; readonly seed: number },
): RouterKind {
  const options = {
    name,
    replicas,
    balancing,
    delayMs,
    balancingSeed: seed + 100,
    policy: { name: policy, options: {} },
    ...(upset === undefined ? {} : { upset }),
  }
  return { name, doc: '', source: '', create: (context) => new ReplicatedRouter(options, context) }
}

function runFiguresOf(result: RunResult): RunFigures {
  const { ttftMeanMs, ttftP99Ms, hit } = figuresOf(result, SLO)
  const late = result.jobs.toSorted((one, other) => one.sentAt - other.sentAt).slice(result.jobs.length >> 1)
  return {
    meanMs: ttftMeanMs,
    p99Ms: ttftP99Ms,
    hit,
    perS: (1000 * result.jobs.length) / result.spanMs,
    lateMeanMs: figuresOf({ ...result, jobs: late }, SLO).ttftMeanMs,
  }
}

/** Who asks a leader gets the choice of the one that has all the books, a round trip later. */
const later = (runs: readonly RunFigures[], ms: number): RunFigures[] =>
  runs.map((one) => ({ ...one, meanMs: one.meanMs + ms, p99Ms: one.p99Ms + ms, lateMeanMs: one.lateMeanMs + ms }))

/** Choices that others make, on average, in the time a choice takes to reach them. */
function unreceivedBy({ replicas, delayMs }: Arrangement, mark: readonly RunFigures[]): number | null {
  return delayMs === null
    ? null
    : ratio((((median(mark.map(({ perS }) => perS)) * delayMs) / 1000) * (replicas - 1)) / replicas)
}

const ratio = (value: number): number => Number(value.toFixed(3))

function figuresIn(runs: readonly RunFigures[], mark: readonly RunFigures[]): BenchRow {
  const middle = (pick: (one: RunFigures, mark: RunFigures) => number) =>
    median(runs.map((one, at) => pick(one, mark[at]!)))
  return {
    ttft_mean_ms: Math.round(middle(({ meanMs }) => meanMs)),
    ttft_p99_ms: Math.round(middle(({ p99Ms }) => p99Ms)),
    hit: ratio(middle(({ hit }) => hit)),
    ratio_vs_one: ratio(middle((one, { meanMs }) => one.meanMs / meanMs)),
    late_ratio: ratio(middle((one, { lateMeanMs }) => one.lateMeanMs / lateMeanMs)),
  }
}

/** The worst ratio of `predicted` over workloads, loads and numbers of replicas; 1: as one gateway. */
function headlineOf(rows: readonly BenchRow[], measuredMs: number): Record<string, number> {
  const worst = (named: string, delayMs?: number) =>
    rows.flatMap((row) =>
      row['policy'] === 'predicted' &&
      row['arrangement'] === named &&
      (delayMs === undefined || row['delay_ms'] === delayMs)
        ? [Number(row['ratio_vs_one'])]
        : [],
    )
  const figures = {
    ttft_ratio_max: worst('log', measuredMs),
    alone: worst('alone'),
    log_0ms: worst('log', 0),
    log_1ms: worst('log', 1),
    log_20ms: worst('log', 20),
    log_100ms: worst('log', 100),
    leader_1ms: worst('leader', 1),
    dies: worst('dies_60s'),
    restarts: worst('restarts_nothing'),
  }
  return Object.fromEntries(
    Object.entries(figures).flatMap(([name, ratios]) =>
      ratios.length === 0 ? [] : [[name === 'ttft_ratio_max' ? name : `${name}_vs_one`, Math.max(...ratios)]],
    ),
  )
}
