/** Traffic of the bench: traces by path, and a generated hour. */
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { chance } from '../../replay/src/replay/chance.ts'
import { engineProfile } from '../../replay/src/replay/engine-profile.ts'
import { fleetOf, type FleetPlan } from '../../replay/src/replay/plan.ts'
import { readTrace, type Trace } from '../../replay/src/replay/trace.ts'
import { longSharedPrefixes } from '../../replay/src/replay/workloads.ts'

/** Name of the generated workload in place of a path. */
export const GENERATED = 'generated'

export interface AutoscaleWorkload {
  readonly name: string
  readonly trace: Trace
  readonly fleet: FleetPlan
}

/** Traffic of a path or of `generated`. `quick`: its first ten minutes. */
export function autoscaleWorkload(source: string, quick: boolean): AutoscaleWorkload {
  const whole =
    source === GENERATED
      ? { name: GENERATED, trace: generatedHour(), fleet: fleetFor('agentic') }
      : {
          name: basename(source, '.jsonl'),
          trace: readTrace(basename(source), readFileSync(source, 'utf8')),
          fleet: fleetFor('h100-8b'),
        }
  if (!quick) return whole
  const requests = whole.trace.requests.filter(({ atMs }) => atMs < QUICK_MS)
  return { ...whole, trace: { ...whole.trace, requests } }
}

const QUICK_MS = 600_000

const fleetFor = (profile: string): FleetPlan => fleetOf(1, { kind: 'vllm', profile: engineProfile(profile) })

const REQUESTS = 9_000

/** An hour whose rate rises sixfold and falls again, with a sudden rush of five minutes on the way down. */
function generatedHour(): Trace {
  const trace = longSharedPrefixes({
    name: GENERATED,
    requests: REQUESTS,
    prefixes: 40,
    seed: 1,
  })
  const random = chance(11)
  let atMs = 0
  const requests = trace.requests.map((request) => {
    atMs -= (1000 / rateAt(atMs / 1000)) * Math.log(1 - random())
    return { ...request, atMs }
  })
  return { ...trace, requests }
}

const HOUR_S = 3_600
const LOWEST_PER_S = 0.7
const HIGHEST_PER_S = 4.2

/** Requests per second. */
function rateAt(s: number): number {
  const wave = (1 - Math.cos((2 * Math.PI * s) / HOUR_S)) / 2
  const isRush = s >= 2_700 && s < 3_000
  return (LOWEST_PER_S + (HIGHEST_PER_S - LOWEST_PER_S) * wave) * (isRush ? 1.6 : 1)
}
