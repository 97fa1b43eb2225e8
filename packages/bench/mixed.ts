/**
 * Fleets of unequal engines in virtual time: the gateway, which gets no profile of them, beside the rules of other
 * projects and an oracle that knows all speeds.
 * `npm run bench -- mixed [MOONCAKE.jsonl AGENTIC.jsonl] [--profiles FOLDER] [--quick] [--half both]
 * [--json FILE]`. FOLDER has
 * measured runs as docs/calibrate.md describes; without it, only fleets by published figures run. `--quick` runs two
 * fleets, two workloads and two loads. Each workload has a row for its first 60 s, and one for the rest.
 */
import { replay } from '../replay/src/replay/plan.ts'
import type { RouterKind } from '../replay/src/replay/router.ts'
import { speedsOn } from '../replay/src/replay/sustained-speed.ts'
import { spread, type Trace } from '../replay/src/replay/trace.ts'
import { type MixedFleet, fleetsOf } from './mixed/fleets.ts'
import {
  comparedRow,
  figuresOf,
  headlineOf,
  learnedAfterRequests,
  learnedWithinS,
  type RunFigures,
} from './mixed/figures.ts'
import { oracleKind, OWN, ownKind, peerKinds, type PredictionTally } from './mixed/policies.ts'
import { workloadNamed } from './policies/workloads.ts'
import type { Bench, BenchRow } from './result.ts'
import { type Halves, halvesIn, halvesNamed, isSecondHalf, withSecondHalves } from './trace-halves.ts'

const LOADS = [0.3, 0.5, 0.7, 0.85, 0.95]
const QUICK_LOADS = [0.5, 0.85]
const REQUESTS = 2_000
const QUICK_REQUESTS = 1_200
const SEED = 1

const bench: Bench = async ({ flags, args, note }) => {
  const isQuick = flags['quick'] !== undefined
  const folder = typeof flags['profiles'] === 'string' ? flags['profiles'] : null
  const traces = tracesOf(args, isQuick, halvesNamed(flags['half'], 'first'))
  note('profiles …')
  const tally: PredictionTally = { decisions: 0, bounds: 0, differed: 0 }
  const kinds = [ownKind(tally), ...peerKinds, oracleKind]
  const rows: BenchRow[] = []
  for (const fleet of fleetsOf(folder, isQuick))
    for (const trace of traces) {
      note(`${fleet.name}, ${trace.name} …`)
      rows.push(...rowsOf(fleet, spread(trace, SEED), { loads: isQuick ? QUICK_LOADS : LOADS, kinds }))
    }
  const second = rows.filter(({ trace }) => isSecondHalf(String(trace)))
  const first = headlineOf(
    rows.filter((row) => !second.includes(row)),
    tally,
  )
  return { rows, headline: second.length === 0 ? first : withSecondHalves(first, headlineOf(second, tally)) }
}

export default bench

/** The given traces and a generated workload; quick: the first trace and the generated one. */
function tracesOf(files: readonly string[], isQuick: boolean, halves: Halves): Trace[] {
  const limit = isQuick ? QUICK_REQUESTS : REQUESTS
  const read = (isQuick ? files.slice(0, 1) : files).flatMap((file) => halvesIn(file, limit, halves))
  return [...read, workloadNamed('prefixes').trace]
}

interface Runs {
  readonly loads: readonly number[]
  readonly kinds: readonly RouterKind[]
}

function rowsOf({ name, planFor }: MixedFleet, trace: Trace, { loads, kinds }: Runs): BenchRow[] {
  const fleet = planFor(trace)
  const speedAt = speedsOn(fleet)
  const pace = { closedLoop: false, concurrency: Infinity, holdAt: null, seed: SEED, clockMs: null }
  return loads.flatMap((load) => {
    const speed = speedAt(load, trace, pace)
    const cold = new Map<string, RunFigures>()
    const warm = new Map<string, RunFigures>()
    let learned = {}
    for (const kind of kinds) {
      const result = replay(trace, fleet, kind, { ...pace, speed })
      cold.set(kind.name, figuresOf(result, true))
      warm.set(kind.name, figuresOf(result, false))
      if (kind.name === OWN)
        learned = {
          learned_within_s: Math.round(learnedWithinS(result)),
          learned_after_requests: learnedAfterRequests(result),
        }
    }
    const cell = { fleet: name, trace: trace.name, load }
    return [
      { ...cell, part: 'first 60 s', ...comparedRow(cold) },
      { ...cell, part: 'after 60 s', ...comparedRow(warm), ...learned },
    ]
  })
}
