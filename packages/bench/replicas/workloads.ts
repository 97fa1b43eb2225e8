/**
 * What the replicas are given: the workloads of `policies`, and two where choices meet: many engines, and crowds that
 * come at once.
 */
import { chance } from '../../replay/src/replay/chance.ts'
import { engineProfile } from '../../replay/src/replay/engine-profile.ts'
import { type FleetPlan, fleetOf } from '../../replay/src/replay/plan.ts'
import { keysOf, spread, type Trace, type TraceRequest } from '../../replay/src/replay/trace.ts'
import { longSharedPrefixes } from '../../replay/src/replay/workloads.ts'
import { arriving, type Workload, workloadIn, workloadNamed } from '../policies/workloads.ts'

export interface SeededWorkload {
  readonly name: string
  readonly fleet: FleetPlan
  traceOf(seed: number): Trace
}

const BLOCK_TOKENS = 512

const makers: Readonly<Record<string, () => SeededWorkload>> = {
  fan_out: () => ({
    name: 'fan_out',
    fleet: fleetOf(8, { kind: 'vllm', profile: engineProfile('agentic') }),
    traceOf: fanOut,
  }),
  prefixes_64: () => ({
    name: 'prefixes_64',
    fleet: fleetOf(64, { kind: 'vllm', profile: engineProfile('h100-8b') }),
    traceOf: (seed) =>
      arriving(
        longSharedPrefixes({
          name: 'prefixes_64',
          requests: 6000,
          prefixes: 320,
          seed,
        }),
        100,
        chance(seed + 1000),
      ),
  }),
}

export function seededNamed(name: string): SeededWorkload {
  return Object.hasOwn(makers, name) ? makers[name]!() : seeded(workloadNamed(name))
}

export function seededIn(file: string, limit: number): SeededWorkload {
  return seeded(workloadIn(file, limit))
}

function seeded({ trace, fleet }: Workload): SeededWorkload {
  return { name: trace.name, fleet, traceOf: (seed) => spread(trace, seed) }
}

/** Agents that ask sixteen questions of one new long context at once, within some milliseconds. */
function fanOut(seed: number): Trace {
  const random = chance(seed)
  let atMs = 0
  let lastId = 0
  const ids = (count: number) => Array.from({ length: count }, () => ++lastId)
  const requests = Array.from({ length: 90 }, (): TraceRequest[] => {
    atMs += -Math.log(1 - random()) * 4000
    const common = ids(8 + Math.floor(random() * 32))
    let sentMs = atMs
    return Array.from({ length: 16 }, () => {
      const own = 1 + Math.floor(random() * 4)
      sentMs += -Math.log(1 - random())
      return {
        atMs: sentMs,
        promptTokens: (common.length + own) * BLOCK_TOKENS + 100,
        outputTokens: 50 + Math.floor(random() * 200),
        blocks: keysOf([...common, ...ids(own)]),
        session: null,
        chain: null,
        thinkMs: 0,
      }
    })
  })
  return {
    name: 'fan_out',
    blockTokens: BLOCK_TOKENS,
    requests: requests.flat().sort((one, other) => one.atMs - other.atMs),
  }
}
