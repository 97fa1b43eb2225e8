/** Workloads for regions: those of `replicas`. */
import { fleetOf, type FleetPlan } from '../../replay/src/replay/plan.ts'
import type { TraceRequest } from '../../replay/src/replay/trace.ts'
import { type SeededWorkload, seededIn, seededNamed } from '../replicas/workloads.ts'

export interface Regional extends SeededWorkload {
  /** Group of requests that use one edge; absent: a conversation. */
  readonly groupOf?: (request: TraceRequest) => string
}

const makers: Readonly<Record<string, (engines: number) => Regional>> = {
  fan_out: (engines) => ({ ...on(seededNamed('fan_out'), engines), groupOf: ({ blocks }) => String(blocks[0]) }),
}

const UNNAMED = '_unnamed'

/** `NAME_unnamed`: requests without a session id. */
export function regionalNamed(name: string, engines: number): Regional {
  if (name.endsWith(UNNAMED)) return unnamed(regionalNamed(name.slice(0, -UNNAMED.length), engines))
  return Object.hasOwn(makers, name) ? makers[name]!(engines) : on(seededNamed(name), engines)
}

export function regionalIn(file: string, limit: number, engines: number): Regional {
  return on(seededIn(file, limit), engines)
}

function unnamed(named: Regional): Regional {
  return {
    ...named,
    name: `${named.name}${UNNAMED}`,
    traceOf(seed) {
      const trace = named.traceOf(seed)
      return { ...trace, requests: trace.requests.map((request) => ({ ...request, session: null })) }
    },
  }
}

/** On this number of engines of its kind. */
function on({ name, fleet, traceOf }: SeededWorkload, engines: number): Regional {
  return { name, fleet: fleetWith(fleet, engines), traceOf }
}

function fleetWith({ engines: [first], rttMs }: FleetPlan, engines: number): FleetPlan {
  return fleetOf(engines, first!.model, rttMs)
}
