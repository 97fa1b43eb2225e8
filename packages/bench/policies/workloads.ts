/** Reproducible traffic, and the engines for it. docs/replay.md has the results. */
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { profileNamed } from '../../simulator/src/profiles.ts'
import { chance } from '../../replay/src/replay/chance.ts'
import { engineProfile, withCacheTokens } from '../../replay/src/replay/engine-profile.ts'
import { fleetOf, type FleetPlan } from '../../replay/src/replay/plan.ts'
import { readTrace, type Trace } from '../../replay/src/replay/trace.ts'
import { multiRound, type RoundsWorkload, longSharedPrefixes } from '../../replay/src/replay/workloads.ts'
import { type Halves, halvesIn } from '../trace-halves.ts'

export interface Workload {
  readonly trace: Trace
  readonly fleet: FleetPlan
}

const ENGINES = 8
const TIGHT_TOKENS = 160_000

/** Long conversations: six questions each, of 15k tokens at first and 21k at the end. */
const conversations: Omit<RoundsWorkload, 'name'> = {
  users: 150,
  rounds: 6,
  systemTokens: 2048,
  historyTokens: 12_000,
  questionTokens: 900,
  answerTokens: 300,
  joinMs: 700,
  thinkMs: 8000,
  blockTokens: 512,
  named: true,
}
/** Short questions and answers on small engines. */
const questions: Omit<RoundsWorkload, 'name'> = {
  users: 200,
  rounds: 8,
  systemTokens: 1000,
  historyTokens: 2000,
  questionTokens: 100,
  answerTokens: 200,
  joinMs: 300,
  thinkMs: 3000,
  blockTokens: 512,
  named: true,
}

const makers: Readonly<Record<string, () => Workload>> = {
  rounds: () => on(multiRound({ ...conversations, name: 'rounds' })),
  rounds_250: () => on(multiRound({ ...conversations, name: 'rounds_250', users: 250 })),
  rounds_tight: () => on(multiRound({ ...conversations, name: 'rounds_tight' }), 'agentic', TIGHT_TOKENS),
  rounds_varied_tight: () =>
    on(varied(multiRound({ ...conversations, name: 'rounds_varied_tight' })), 'agentic', TIGHT_TOKENS),
  qa: () => on(multiRound({ ...questions, name: 'qa' }), 'l40s-8b', 64_000),
  qa_varied: () => on(varied(multiRound({ ...questions, name: 'qa_varied' })), 'l40s-8b', 64_000),
  prefixes: () =>
    on(
      arriving(
        longSharedPrefixes({
          name: 'prefixes',
          requests: 1500,
          prefixes: 40,
          seed: 1,
        }),
        3,
        chance(11),
      ),
    ),
}

/** Throws a RangeError that lists the workloads. */
export function workloadNamed(name: string): Workload {
  const make = Object.hasOwn(makers, name) ? makers[name] : undefined
  if (make === undefined)
    throw new RangeError(`no workload is called "${name}": choose among ${Object.keys(makers).join(', ')}`)
  return make()
}

/** The first `limit` requests of a trace. */
export function workloadIn(file: string, limit: number): Workload {
  const trace = readTrace(basename(file), readFileSync(file, 'utf8'), { limit })
  return { trace, fleet: fleetFor(trace) }
}

/** The first `limit` requests of halves of a trace. */
export function workloadsIn(file: string, limit: number, halves: Halves): Workload[] {
  return halvesIn(file, limit, halves).map((trace) => ({ trace, fleet: fleetFor(trace) }))
}

/** Caches hold a twelfth of the trace's prompts, but at least four of the longest, so that evictions matter. */
function fleetFor({ requests }: Trace): FleetPlan {
  const totalTokens = requests.reduce((sum, { promptTokens }) => sum + promptTokens, 0)
  const longest = requests.reduce(
    (max, { promptTokens, outputTokens }) => Math.max(max, promptTokens + outputTokens),
    0,
  )
  const profile = profileNamed('agentic')
  const own = profile.limits.cacheBlocks * profile.limits.blockTokens
  return fleetOf(ENGINES, {
    kind: 'vllm',
    profile: withCacheTokens(profile, Math.max(4 * longest, Math.min(own, totalTokens / 12))),
  })
}

function on(trace: Trace, profile = 'agentic', cacheTokens: number | null = null): Workload {
  const own = engineProfile(profile)
  return {
    trace,
    fleet: fleetOf(ENGINES, { kind: 'vllm', profile: cacheTokens === null ? own : withCacheTokens(own, cacheTokens) }),
  }
}

/** Thinking times are exponential, outputs have half to one and a half of the length. */
function varied(trace: Trace): Trace {
  const random = chance(5)
  const requests = trace.requests.map((request) => ({
    ...request,
    outputTokens: Math.max(1, Math.round(request.outputTokens * (0.5 + random()))),
    thinkMs: -Math.log(1 - random()) * request.thinkMs,
  }))
  return { ...trace, requests }
}

/** The same number of arrivals per second, at random times. */
export function arriving(trace: Trace, perS: number, random: () => number): Trace {
  let atMs = 0
  return {
    ...trace,
    requests: trace.requests.map((request) => ({
      ...request,
      atMs: (atMs += (-Math.log(1 - random()) * 1000) / perS),
    })),
  }
}
