/**
 * CPU per request of Workers under workerd, relative to a Worker that only passes requests on. Short slices of load
 * alternate between the Workers, and the order is reversed in every other round, so that other work on the machine
 * changes all of them alike. A ratio compares slices of one round; its median over the rounds is the result.
 */
import { median } from '../median.ts'
import { childNamed, runLoad, type Load, type LoadResult } from '../proxy/processes.ts'
import type { BenchOptions, BenchRow } from '../result.ts'
import type { Start } from './long-prompts.ts'

/**
 * `pass`: a Worker that only calls `fetch`, with the parts of pass-through.mjs that are named. `native`: nobody reads
 * the stream on its way; `observed`: all are read, where Workers read a tenth by default; `exact`: native, with a
 * vocabulary; `local`: native, with the pool's state in the isolate (local-worker.ts); `front`: a front Worker and a region
 * Worker; `front exact`: both with a vocabulary, `twice`: both measure; `baseline`: `native` with the bundle that BASELINE names.
 */
export type EdgeSubject =
  | PassSubject
  | 'native'
  | 'local'
  | 'observed'
  | 'exact'
  | 'front'
  | 'front exact'
  | 'front exact twice'
  | 'baseline'
type PassSubject =
  | 'pass'
  | 'pass + prompt'
  | 'pass + end'
  | 'pass + prompt + json + end'
  | 'pass + object'
  | 'pass + object + prompt + end'
  | 'pass + admit + prompt + json + hash + end'

const SUBJECTS = [
  'pass',
  'native',
  'local',
  'pass + prompt',
  'pass + end',
  'pass + prompt + json + end',
  'pass + object',
  'pass + object + prompt + end',
  'pass + admit + prompt + json + hash + end',
  'observed',
  'front',
  'baseline',
] as const satisfies readonly EdgeSubject[]
type CpuSubject = (typeof SUBJECTS)[number]

const SCENARIOS: Readonly<Record<'burst' | 'paced' | '220k', Omit<Load, 'port'>>> = {
  burst: { connections: 16, bytes: 1024, pace: [0, 0] },
  paced: { connections: 32, bytes: 1024, pace: [20, 5] },
  '220k': { connections: 4, bytes: 220_000, pace: [0, 0] },
}
type Scenario = keyof typeof SCENARIOS

/** The least that a gateway with one object call can do. */
export const FLOOR: CpuSubject = 'pass + admit + prompt + json + hash + end'

export interface CpuPlan {
  readonly rounds: number
  /** Requests of a slice that are counted. */
  readonly requests: number
  /** Requests of each Worker and scenario before the first round: V8 optimizes after thousands. */
  readonly warmRequests: number
  /** After so long no further round starts, ms. Three rounds are run in any case. */
  readonly limitMs: number
}

export interface CpuOptions {
  readonly note: BenchOptions['note']
  /** Besides `pass`, which is always measured. */
  readonly subjects: readonly string[]
}

const MIN_ROUNDS = 3
/** Requests before those that are counted, times the connections. */
const SLICE_WARM = 2

interface Worker {
  readonly name: CpuSubject
  readonly port: number
  readonly pid: number
}

export async function workerCpu(
  start: Start,
  urls: readonly string[],
  { note, subjects, ...plan }: CpuPlan & CpuOptions,
): Promise<{ readonly rows: BenchRow[]; readonly headline: Record<string, number> }> {
  const startedAt = performance.now()
  const workers: Worker[] = []
  const measured = SUBJECTS.filter((name) => name === 'pass' || subjects.includes(name))
  for (const name of measured) {
    const { port, pid } = await start('../edge/host.ts', [name, ...urls])
    workers.push({ name, port, pid: childNamed(pid, 'workerd') })
  }
  const names = Object.keys(SCENARIOS) as Scenario[]
  for (const name of names) {
    note(`warm ${name}`)
    for (const { port } of workers)
      await runLoad({ ...SCENARIOS[name], port, requests: 1, warmRequests: plan.warmRequests }, null)
  }
  const rounds = new Map<Scenario, Map<CpuSubject, LoadResult>[]>(names.map((name) => [name, []]))
  for (let round = 0; round < plan.rounds; round++) {
    if (round >= MIN_ROUNDS && performance.now() - startedAt > plan.limitMs) break
    for (const name of names) {
      note(`${round + 1}/${plan.rounds} ${name}`)
      rounds.get(name)!.push(await oneRound(round % 2 === 0 ? workers : workers.toReversed(), SCENARIOS[name], plan))
    }
  }
  const rows = names.flatMap((name) => measured.map((subject) => rowOf(name, subject, rounds.get(name)!)))
  const hasFloor = measured.includes('native') && measured.includes(FLOOR)
  const overFloor = hasFloor ? names.map((name) => [`native_over_floor_${name}`, overFloorOf(rounds.get(name)!)]) : []
  return { rows, headline: { ...headlineOf(rows), ...Object.fromEntries(overFloor) } }
}

type Rounds = readonly ReadonlyMap<CpuSubject, LoadResult>[]

async function oneRound(
  workers: readonly Worker[],
  load: Omit<Load, 'port'>,
  { requests }: CpuPlan,
): Promise<Map<CpuSubject, LoadResult>> {
  const results = new Map<CpuSubject, LoadResult>()
  const warmRequests = SLICE_WARM * load.connections
  for (const { name, port, pid } of workers)
    results.set(name, await runLoad({ ...load, port, requests, warmRequests }, pid))
  return results
}

function rowOf(scenario: Scenario, subject: CpuSubject, rounds: Rounds): BenchRow {
  const results = rounds.map((round) => round.get(subject)!)
  const ratios = ratiosOf(subject, rounds).toSorted((a, b) => a - b)
  const of = (read: (result: LoadResult) => number) => results.map(read)
  return {
    scenario,
    subject,
    cpu_us: median(of(({ cpu_us }) => cpu_us!)),
    cpu_ratio_vs_pass: median(ratios),
    ratio_p25: ratios[Math.floor(ratios.length / 4)]!,
    ratio_p75: ratios[Math.floor((ratios.length * 3) / 4)]!,
    ttfb_ms_p50: median(of(({ ttfb_ms_p50 }) => ttfb_ms_p50)),
    ttfb_ms_p99: median(of(({ ttfb_ms_p99 }) => ttfb_ms_p99)),
    requests: of(({ requests }) => requests).reduce((a, b) => a + b, 0),
    errors: of(({ errors }) => errors).reduce((a, b) => a + b, 0),
  }
}

/** CPU relative to `pass` in each round. */
const ratiosOf = (subject: CpuSubject, rounds: Rounds): number[] =>
  rounds.map((round) => round.get(subject)!.cpu_us! / round.get('pass')!.cpu_us!)

/** Distance between the ratios of the gateway and of the floor, median of the rounds. */
function overFloorOf(rounds: Rounds): number {
  const floor = ratiosOf(FLOOR, rounds)
  return median(ratiosOf('native', rounds).map((ratio, round) => ratio - floor[round]!))
}

function headlineOf(rows: readonly BenchRow[]): Record<string, number> {
  return Object.fromEntries(
    rows.flatMap(({ scenario, subject, cpu_ratio_vs_pass: ratio }) => {
      const name = String(subject).replace('pass + ', '').replaceAll(' + ', '_')
      return name === 'pass' ? [] : [[`${name}_ratio_${String(scenario)}`, ratio as number]]
    }),
  )
}
