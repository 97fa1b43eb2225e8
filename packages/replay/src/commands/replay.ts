import { performance } from 'node:perf_hooks'
import { setImmediate } from 'node:timers/promises'
import { type FleetPlan, replay as replayOnce } from '../replay/plan.ts'
import { speedsOn, rateAt } from '../replay/sustained-speed.ts'
import { presetNamed, presets } from '../replay/presets.ts'
import { oracleKinds } from '../replay/oracles.ts'
import { baselineKinds, routerKinds, routerNamed, shippedKinds } from '../replay/routers.ts'
import type { RouterKind } from '../replay/router.ts'
import type { RunResult } from '../replay/run.ts'
import { type Figures, figuresOf, type Slo } from '../replay/statistics.ts'
import { sloFlags, sloOf } from '../report/slo.ts'
import { overloadOf, type Overload, sustainableShare } from '../replay/overload.ts'
import { spread, type Trace } from '../replay/trace.ts'
import { legendOf } from '../report/columns.ts'
import { overloadNote, slower } from '../report/overload-note.ts'
import { reportPage } from '../report/page.ts'
import { provenanceOf } from '../report/provenance.ts'
import { type Series, seriesOf } from '../report/series.ts'
import type { Args, Command, Io } from '../../../../src/cli/commands/command.ts'
import { UsageError } from '../../../../src/platform/node/usage-error.ts'
import { progressBar } from '../../../../src/cli/commands/progress-bar.ts'
import { asJson, outputOf } from '../../../../src/cli/commands/output-file.ts'
import { benchmarkReportFlag, benchmarkReportOf, hasReport } from './benchmark-report-file.ts'
import { traceIn } from './trace-file.ts'
import { AUTOSCALE_INSTEAD, autoscaleFlags, replayAutoscale } from './replay-autoscale.ts'
import { numbersOf } from './number-list.ts'
import { DEFAULT_PROFILE, fleetPlanOf } from './replay-fleet.ts'
import { columnsOf, tableOf } from '../report/replay-table.ts'
import { type ReplayRow, rowOf } from '../report/replay-row.ts'
import { winnerOf } from '../report/winner.ts'

export const replay: Command = {
  name: 'replay',
  summary: 'Replay a trace on a simulated copy of your fleet with several routing policies, and compare them.',
  examples: [
    'firstlight replay --preset burst',
    'firstlight replay --trace conversation.jsonl --engines 8 --policies predicted,prefix,round_robin --load 0.7',
    'firstlight replay --trace conversation.jsonl --config firstlight.yaml --policies all --json out.json ' +
      '--html out.html',
  ],
  positionals: null,
  instead: {
    preset: [
      'trace',
      'config',
      'pool',
      'engines',
      'profile',
      'cache-tokens',
      'lmcache',
      'rtt-ms',
      'policies',
      'load',
      'speed',
      'seeds',
      'limit',
      'open-loop',
      'concurrency',
      'late-binding',
      'benchmark-report',
    ],
    config: ['engines'],
    load: ['speed'],
    autoscale: AUTOSCALE_INSTEAD,
  },
  flags: {
    trace: {
      type: 'string',
      value: 'FILE',
      about:
        'Mooncake schema, one JSON object per line: timestamp, input_length, output_length, hash_ids; ' +
        'session_id and think_ms if there are sessions, or the fields of AIPerf. Or a trace of Azure, BurstGPT, ' +
        'ShareGPT, Weka (AgentX) or Bailian, or a result of `vllm bench serve --save-detailed`.',
    },
    preset: {
      type: 'string',
      value: 'NAME',
      about:
        'Instead of a trace, a published experiment with its own fleet and policies: ' +
        `${presets.map(({ name }) => name).join(', ')}.`,
    },
    config: {
      type: 'string',
      short: 'c',
      value: 'FILE',
      about: 'Use the engines, roles, profiles and network times of this configuration.',
    },
    pool: { type: 'string', value: 'MODEL', about: 'The pool to use. Default: the first.' },
    engines: { type: 'string', value: 'N', about: 'Without a configuration: number of engines. Default: 8.' },
    profile: {
      type: 'string',
      value: 'NAME',
      about:
        'Hardware: a simulator profile, GPU-PARAMSb such as h100-8b, a file of `firstlight calibrate`, or ' +
        '`serial`. Default: agentic.',
    },
    'cache-tokens': {
      type: 'string',
      value: 'N',
      about: 'Cache capacity of each engine in tokens. Default: from the profile.',
    },
    lmcache: {
      type: 'string',
      value: 'SIZES',
      about:
        'LMCache at every engine: capacity in tokens by tier, as in host=400000,disk=4000000,remote=0; ' +
        'report_ms (delay of its directory), host_us, disk_us, remote_us (load time of a token).',
    },
    'rtt-ms': { type: 'string', value: 'N', about: 'Network round trip between gateway and engines. Default: 0.' },
    policies: {
      type: 'string',
      value: 'LIST',
      about:
        'all, shipped, or names separated by commas; options after colons, as in predicted:work_weight=2. ' +
        'Default: shipped and exact.',
    },
    load: {
      type: 'string',
      value: 'LIST',
      about:
        'Loads as shares of what the fleet sustains with `exact`, as in 0.3,0.7,0.95. Default: the trace’s own pace.',
    },
    speed: { type: 'string', value: 'X', about: 'Instead of --load: multiple of the trace’s own pace. Default: 1.' },
    seeds: { type: 'string', value: 'LIST', about: 'Repeat with these seeds and report means. Default: 1.' },
    limit: { type: 'string', value: 'N', about: 'Only the first N requests.' },
    'open-loop': {
      type: 'boolean',
      about: 'Send turns of a session at the times of the trace, not after the previous answer.',
    },
    concurrency: { type: 'string', value: 'N', about: 'Maximum number of requests in flight.' },
    'late-binding': {
      type: 'string',
      value: 'N',
      about: 'Hold requests at the gateway while every engine has N requests without a first token. Default: never.',
    },
    ...autoscaleFlags,
    ...sloFlags,
    json: { type: 'string', value: 'FILE', about: 'Write all figures as JSON.' },
    html: { type: 'string', value: 'FILE', about: 'Write a self-contained HTML report with plots.' },
    ...benchmarkReportFlag,
  },
  run: runReplay,
}

interface Plan {
  readonly trace: Trace
  readonly fleet: FleetPlan
  readonly kinds: readonly RouterKind[]
  readonly paces: readonly { readonly load: number | null; readonly speed: number }[]
  readonly seeds: readonly number[]
  readonly slo: Slo
  readonly closedLoop: boolean
  readonly concurrency: number
  readonly holdAt: number | null
  /** `--engines` sets the number of engines. false: a configuration names them. */
  readonly canResize: boolean
  /** There is one run, and its result is reported. */
  readonly hasReport: boolean
}

async function runReplay(args: Args, io: Io): Promise<number> {
  const write = outputsOf(args)
  const preset = args.text('preset')
  if (preset !== null) return runPreset(preset, args, { io, write })
  const plan = planOf(args, io)
  if (args.on('autoscale')) return replayAutoscale(args, io, plan)
  const report = benchmarkReportOf(args)
  const started = performance.now()
  io.err(`${plan.trace.name}: ${plan.trace.requests.length} requests, ${plan.fleet.engines.length} engines\n`)
  const rows: ReplayRow[] = []
  const series: Series[] = []
  const results: RunResult[] = []
  const speedAt = speedsOn(plan.fleet)
  const notes: string[] = []
  for (const pace of plan.paces) {
    const result = await runPace(plan, pace, { io, series, results, speedAt })
    if (result === null) return 130
    rows.push(...result.rows)
    for (const line of [...tableOf(result.rows), ...result.notes]) io.out(line)
    io.out('')
    notes.push(...result.notes.map((note) => (pace.load === null ? note : `Load ${pace.load}: ${note}`)))
  }
  for (const line of legendOf(columnsOf(rows), plan.slo)) io.out(line)
  io.err(`${((performance.now() - started) / 1000).toFixed(1)} s`)
  const origin = { trace: plan.trace, profile: profileText(args) }
  write({ rows, series, notes, ...origin })
  const { concurrency } = plan
  report(() => ({
    result: results[0]!,
    provenance: provenanceOf(replay, args, origin),
    tool: 'firstlight replay',
    concurrency,
  }))
  return 0
}

/** Names the hardware of a replay without a preset. */
function profileText(args: Args): string {
  const config = args.text('config')
  return args.text('profile') ?? (config === null ? DEFAULT_PROFILE : `as in ${config}`)
}

interface ReplayReport {
  readonly rows: readonly ReplayRow[]
  readonly series: readonly Series[]
  readonly notes: readonly string[]
  readonly trace: Pick<Trace, 'name' | 'sha256'>
  readonly profile: string
}

function outputsOf(args: Args): (replayed: ReplayReport) => void {
  const json = outputOf(args, 'json')
  const html = outputOf(args, 'html')
  return ({ rows, series, notes, ...origin }) => {
    const provenance = provenanceOf(replay, args, origin)
    json(() => asJson({ name: 'replay', provenance, notes, rows }))
    html(() => reportPage({ rows, series, notes, provenance, slo: sloOf(args) }))
  }
}

interface PaceContext {
  readonly io: Io
  readonly series: Series[]
  /** Of a plan with one run for `--benchmark-report`. */
  readonly results: RunResult[]
  readonly speedAt: ReturnType<typeof speedsOn>
}

/** Computes the speed of a load. Throws a UsageError if the trace is too small for one. */
function speedOfLoad(compute: () => number): number {
  try {
    return compute()
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new UsageError(`${error.message}.`, 'Use --speed instead of --load, fewer --engines, or a longer trace.')
  }
}

/** Resolves with null if it was stopped. */
async function runPace(
  plan: Plan,
  pace: Plan['paces'][number],
  { io, series, results, speedAt }: PaceContext,
): Promise<{ readonly rows: readonly ReplayRow[]; readonly notes: readonly string[] } | null> {
  const byPolicy = new Map<string, Figures[]>()
  const overloads = new Map<string, Overload>()
  let firstSpeed: number | null = null
  for (const seed of plan.seeds) {
    const trace = spread(plan.trace, seed)
    const { closedLoop, concurrency, holdAt } = plan
    const fixed = { closedLoop, concurrency, holdAt, seed, clockMs: null }
    const speed = pace.load === null ? pace.speed : speedOfLoad(() => speedAt(pace.load!, trace, fixed))
    firstSpeed ??= speed
    io.err(
      `${pace.load === null ? '' : `load ${pace.load}: `}speed x${speed.toPrecision(3)}, ` +
        `${rateAt(speed, trace).toPrecision(3)} requests/s, seed ${seed}`,
    )
    for (const kind of plan.kinds) {
      await setImmediate()
      if (io.stop.aborted) return null
      const bar = progressBar(kind.name)
      const result = replayOnce(trace, plan.fleet, kind, {
        ...fixed,
        speed,
        clockMs: () => performance.now(),
        progress: bar.draw,
      })
      bar.clear()
      if (plan.hasReport) results.push(result)
      byPolicy.set(kind.name, [...(byPolicy.get(kind.name) ?? []), figuresOf(result, plan.slo)])
      if (seed !== plan.seeds[0]) continue
      series.push(seriesOf(result, pace.load))
      const overload = overloadOf(result)
      if (overload !== null) overloads.set(kind.name, overload)
    }
  }
  const rows = [...byPolicy].map(([policy, figures]) =>
    rowOf(policy, figures, { trace: plan.trace.name, load: pace.load }),
  )
  const note = unsustained(plan, overloads, { load: pace.load, speed: firstSpeed! })
  return { rows, notes: [winnerOf(rows) ?? [], note ?? []].flat() }
}

/** Describes policies that cannot sustain the pace, and flags to try. null: all sustain it. */
function unsustained(
  { kinds, fleet, canResize }: Plan,
  overloads: ReadonlyMap<string, Overload>,
  { load, speed }: Plan['paces'][number],
): string | null {
  const [mildest] = [...overloads.values()].toSorted((one, other) => one.slope - other.slope)
  if (mildest === undefined) return null
  const subject = overloads.size === kinds.length ? 'The fleet' : `With ${[...overloads.keys()].join(', ')}, the fleet`
  const engines = Math.ceil(fleet.engines.length / (0.9 * sustainableShare(mildest)))
  return overloadNote(subject, mildest, [
    load === null ? `--speed ${slower(speed, mildest)}` : `--load ${slower(load, mildest)}`,
    canResize ? `--engines ${engines}` : `${engines} engines of this kind`,
  ])
}

async function runPreset(
  name: string,
  args: Args,
  { io, write }: { readonly io: Io; readonly write: (replayed: ReplayReport) => void },
): Promise<number> {
  const preset = orUsage('--preset', () => presetNamed(name))
  io.out(`${preset.name}: ${preset.doc}\n`)
  const rows: ReplayRow[] = []
  const series: Series[] = []
  for (const part of preset.parts) {
    const figures: ReplayRow[] = []
    for (const kind of part.kinds) {
      await setImmediate()
      if (io.stop.aborted) return 130
      const result = replayOnce(part.trace, part.fleet, kind, {
        speed: 1,
        closedLoop: part.closedLoop,
        concurrency: part.concurrency,
        ...(part.pollMs === undefined ? {} : { pollMs: part.pollMs }),
        holdAt: null,
        seed: 1,
        clockMs: () => performance.now(),
      })
      series.push(seriesOf(result, null))
      figures.push({
        ...rowOf(kind.name, [figuresOf(result, sloOf(args))], { trace: part.name, load: null }),
        ...part.extra?.(result),
      })
    }
    io.out(part.name)
    const winner = winnerOf(figures)
    for (const line of [...tableOf(figures, part.published), ...(winner === null ? [] : [winner])]) io.out(line)
    io.out('')
    rows.push(...figures)
  }
  for (const line of [...legendOf(columnsOf(rows), sloOf(args)), '', ...preset.notes]) io.out(line)
  write({ rows, series, notes: preset.notes, trace: { name: preset.name }, profile: `of the preset ${preset.name}` })
  return 0
}

function planOf(args: Args, io: Io): Plan {
  const trace = traceOf(args)
  const loads = args.text('load')
  const paces =
    loads === null
      ? [{ load: null, speed: args.number('speed', { min: 1e-6, max: 1e6 }) ?? 1 }]
      : numbersOf(loads, '--load', 10).map((load) => ({ load, speed: 0 }))
  const sessions = trace.requests.some(({ session }) => session !== null)
  const kinds = kindsOf(args.text('policies'))
  const seeds = numbersOf(args.text('seeds') ?? '1', '--seeds', 1e9)
  return {
    trace,
    fleet: fleetPlanOf(args, io.env, trace.blockTokens),
    kinds,
    paces,
    seeds,
    slo: sloOf(args),
    closedLoop: sessions && !args.on('open-loop'),
    concurrency: args.whole('concurrency', { min: 1, max: 1e6 }) ?? Infinity,
    holdAt: args.whole('late-binding', { min: 1, max: 1e6 }),
    canResize: args.text('config') === null,
    hasReport: hasReport(args, kinds.length * paces.length * seeds.length),
  }
}

function traceOf(args: Args): Trace {
  const file = args.text('trace')
  if (file === null)
    throw new UsageError(
      'firstlight replay needs a trace or a preset.',
      `Example: firstlight replay --preset ${presets[0]!.name}`,
    )
  return traceIn(file, args)
}

function kindsOf(text: string | null): readonly RouterKind[] {
  if (text === null) return [...shippedKinds, ...oracleKinds]
  const groups: Readonly<Record<string, readonly RouterKind[]>> = {
    all: routerKinds,
    shipped: shippedKinds,
    baselines: baselineKinds,
  }
  return orUsage('--policies', () =>
    text.split(',').flatMap((word) => groups[word.trim()] ?? [routerNamed(word.trim())]),
  )
}

/** Converts an error of a lookup to a UsageError. */
function orUsage<Value>(flag: string, find: () => Value): Value {
  try {
    return find()
  } catch (error) {
    throw error instanceof RangeError
      ? new UsageError(`${flag}: ${error.message}.`, 'firstlight replay --help shows examples.')
      : error
  }
}
