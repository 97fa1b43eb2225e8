/**
 * Gateways at the edge that choose among regions, in virtual time: by distance (`nearest`), by weights (`weights`), by
 * loads (`load`), by digests (`digest`; `_blind`: without cached prefixes) with a given interval in ms, and by the
 * state of all engines and their distance (`global`, the reference).
 *
 * `npm run bench -- regions [TRACE.jsonl ...] [--workloads LIST] [--requests N] [--loads LIST] [--regions N] [--edges
 * N] [--engines N] [--rtts NEAR,FAR,FARTHEST] [--clients 60/30/10,day] [--roam P] [--ways LIST] [--every LIST] [--seeds
 * N]`
 * It reports medians over seeds of TTFT at the client, with the round trip; ratios are of means, seed by seed.
 */
import { speedsOn } from '../replay/src/replay/sustained-speed.ts'
import { figuresOf } from '../replay/src/replay/statistics.ts'
import { median } from './median.ts'
import { byDay, type Clients, entriesOf, regionOf, type Places, unevenly } from './regions/places.ts'
import { type Regional, regionalIn, regionalNamed } from './regions/workloads.ts'
import { replayIn, type Way, waysIn } from './regions/ways.ts'
import type { Bench, BenchOptions, BenchRow } from './result.ts'

const SLO = { ttftMs: 5000, itlMs: 100 }

const bench: Bench = async (options) => {
  const plan = planOf(options)
  const rows: BenchRow[] = []
  for (const workload of plan.workloads) {
    const speedAt = speedsOn(workload.fleet)
    for (const clients of plan.clients) {
      for (const load of plan.loads) rows.push(...cellRows({ workload, clients, load, speedAt }, plan, options.note))
    }
  }
  return { rows, headline: headlineOf(rows) }
}

export default bench

interface Plan {
  readonly workloads: readonly Regional[]
  readonly clients: readonly Clients[]
  readonly loads: readonly number[]
  readonly places: Places
  readonly ways: readonly Way[]
  readonly roam: number
  readonly seeds: number
}

function planOf({ flags, args }: BenchOptions): Plan {
  const words = (flag: string, otherwise: string) => String(flags[flag] ?? otherwise).split(',')
  const number = (flag: string, otherwise: number) => Number(flags[flag] ?? otherwise)
  const regions = number('regions', 3)
  const engines = regions * number('engines', 4)
  const [near, far, farthest] = words('rtts', '5,80,140').map(Number)
  return {
    workloads:
      args.length > 0
        ? args.map((file) => regionalIn(file, number('requests', 2500), engines))
        : words('workloads', 'rounds_varied_tight,prefixes').map((name) => regionalNamed(name, engines)),
    clients: words('clients', '60/30/10').map((name) =>
      name === 'day' ? byDay(regions) : unevenly(name.split('/').map(Number)),
    ),
    loads: words('loads', '0.3,0.5,0.7,0.9').map(Number),
    places: { regions, edges: number('edges', regions), rttsMs: [near!, far!, farthest!] },
    ways: waysIn(words('ways', 'global,nearest,weights,load,digest,digest_blind'), words('every', '2000').map(Number)),
    roam: number('roam', 0.1),
    seeds: number('seeds', 3),
  }
}

interface Cell {
  readonly workload: Regional
  readonly clients: Clients
  readonly load: number
  readonly speedAt: ReturnType<typeof speedsOn>
}

interface Felt {
  readonly meanMs: number
  readonly p99Ms: number
  readonly hit: number
  readonly near: number
}

function cellRows({ workload, clients, load, speedAt }: Cell, plan: Plan, note: (line: string) => void): BenchRow[] {
  const { places, ways, roam } = plan
  const felt = ways.map((): Felt[] => [])
  for (let seed = 1; seed <= plan.seeds; seed += 1) {
    note(`${workload.name}, ${clients.name}, load ${load}, seed ${seed} …`)
    const trace = workload.traceOf(seed)
    const closedLoop = trace.requests.some(({ chain }) => chain !== null)
    const pace = { closedLoop, concurrency: Infinity, holdAt: null, clockMs: null }
    // The search for the sustained load takes twenty runs, and seeds hardly differ.
    const speed = speedAt(load, trace, { ...pace, seed: 1 })
    const entries = entriesOf(trace, places, {
      clients,
      roam,
      seed: seed + 100,
      ...(workload.groupOf === undefined ? {} : { groupOf: workload.groupOf }),
    })
    for (const [at, way] of ways.entries())
      felt[at]!.push(
        feltOf(
          replayIn(trace, workload.fleet, { places, entries, way, seed, pace: { ...pace, speed } }),
          entries,
          places,
        ),
      )
  }
  const mark = felt[ways.findIndex(({ knowing }) => knowing === 'all')]
  const nearest = felt[ways.findIndex(({ name }) => name === 'nearest')]
  return ways.map((way, at) => ({
    workload: workload.name,
    clients: clients.name,
    load,
    edges: places.edges,
    way: way.name,
    every_ms: way.everyMs,
    ...figuresIn(felt[at]!, mark, nearest),
  }))
}

function feltOf(result: ReturnType<typeof replayIn>, entries: Uint8Array, places: Places): Felt {
  const { ttftMeanMs, ttftP99Ms, hit } = figuresOf(result, SLO)
  const near = result.jobs.filter(({ index, engine }) => regionOf(places, entries[index]!) === engine).length
  return { meanMs: ttftMeanMs, p99Ms: ttftP99Ms, hit, near: near / result.jobs.length }
}

function figuresIn(
  felt: readonly Felt[],
  mark: readonly Felt[] | undefined,
  nearest: readonly Felt[] | undefined,
): BenchRow {
  const middle = (pick: (one: Felt, at: number) => number) => median(felt.map(pick))
  const against = (others: readonly Felt[] | undefined) =>
    others === undefined ? null : ratio(middle(({ meanMs }, at) => meanMs / others[at]!.meanMs))
  return {
    ttft_mean_ms: Math.round(middle(({ meanMs }) => meanMs)),
    ttft_p99_ms: Math.round(middle(({ p99Ms }) => p99Ms)),
    hit: ratio(middle(({ hit }) => hit)),
    near: ratio(middle(({ near }) => near)),
    vs_global: against(mark),
    vs_nearest: against(nearest),
  }
}

const ratio = (value: number): number => Number(value.toFixed(3))

/** Over workloads, clients and loads: the geometric mean of the ratios to the reference, and the worst. */
function headlineOf(rows: readonly BenchRow[]): Record<string, number> {
  const figures: Record<string, number> = {}
  for (const name of new Set(
    rows.map(({ way, every_ms: everyMs }) => (everyMs === null ? String(way) : `${way}_${everyMs}ms`)),
  )) {
    const ratios = rows.flatMap(({ way, every_ms: everyMs, vs_global: against }) =>
      against !== null && name === (everyMs === null ? way : `${way}_${everyMs}ms`) ? [Number(against)] : [],
    )
    if (ratios.length === 0 || name === 'global') continue
    figures[`${name}_vs_global`] = ratio(Math.exp(ratios.reduce((sum, one) => sum + Math.log(one), 0) / ratios.length))
    figures[`${name}_worst`] = Math.max(...ratios)
  }
  return figures
}
