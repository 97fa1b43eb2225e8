/** Two keys of weights 1 and 3 that both have requests in the queue: the work that each gets. */
import { type GatewayOptions, GatewayRouter } from '../../replay/src/replay/gateway-router.ts'
import { type FleetPlan, replay } from '../../replay/src/replay/plan.ts'
import type { RouterKind } from '../../replay/src/replay/router.ts'
import type { Job } from '../../replay/src/replay/job.ts'
import type { Trace } from '../../replay/src/replay/trace.ts'
import type { BenchRow } from '../result.ts'

/** Requests that an engine runs at a time: the others wait at the gateway. */
const MAX_IN_FLIGHT = 16
/** Multiple of the trace's pace: nearly all requests arrive before the first ones end. */
const SPEED = 1_000
const WEIGHTS = { light: 1, heavy: 3 }

type Key = keyof typeof WEIGHTS

/** By the third block of the prompt, which the turns of a session share. */
const keyOf = ({ blocks }: Pick<Job, 'blocks'>): Key => ((blocks[4] ?? blocks[0] ?? 0) % 2 === 0 ? 'light' : 'heavy')

/** An output token counts twice, as in the order of the queue. */
const workOf = ({ promptTokens, cachedTokens, outputTokens }: Job): number =>
  promptTokens - cachedTokens + 2 * outputTokens

interface ServedWork {
  readonly light: number
  readonly heavy: number
  readonly largest: number
  readonly requests: number
}

/** `error`: how much less or more one key gets than its weight, beyond one request, as a share of the work. */
export function workByWeight(trace: Trace, fleet: FleetPlan): BenchRow {
  const { light, heavy, largest, requests } = served(trace, fleet)
  const perWeight = heavy / WEIGHTS.heavy
  return {
    trace: trace.name,
    policy: 'two keys that wait',
    requests,
    work_of_weight_1: light,
    work_of_weight_3: heavy,
    ratio: Number((heavy / light).toFixed(3)),
    error: Number((Math.max(0, Math.abs(light - perWeight) - largest) / light).toFixed(4)),
  }
}

/** Work of both keys, in the order of their placement, while both have requests that wait. */
function served(trace: Trace, fleet: FleetPlan): ServedWork {
  const order: { readonly job: Job; readonly at: number }[] = []
  const options: GatewayOptions = {
    name: 'queue',
    policy: { name: 'predicted', options: {} },
    queue: { maxRequests: trace.requests.length, maxWaitMs: 1e12 },
    tenantOf: keyOf,
    weightOf: (job) => WEIGHTS[keyOf(job)],
    chose: ({ job }, at) => void order.push({ job, at }),
  }
  const kind: RouterKind = {
    name: 'queue',
    doc: '',
    source: '',
    create: (context) => new GatewayRouter(options, context),
  }
  const engines = fleet.engines.map((engine) => ({ ...engine, spec: { ...engine.spec, maxInFlight: MAX_IN_FLIGHT } }))
  const pace = { closedLoop: false, concurrency: Infinity, holdAt: null, seed: 1, clockMs: null, speed: SPEED }
  const { jobs } = replay(trace, { ...fleet, engines }, kind, pace)
  const left = { light: 0, heavy: 0 }
  for (const job of jobs) left[keyOf(job)] += 1
  const lastArrival = Math.max(...jobs.map(({ sentAt }) => sentAt))
  const total = { light: 0, heavy: 0, largest: 0, requests: 0 }
  for (const { job, at } of order) {
    const key = keyOf(job)
    left[key] -= 1
    if (left[key] === 0) break
    if (at < lastArrival) continue
    total[key] += workOf(job)
    total.largest = Math.max(total.largest, workOf(job))
    total.requests += 1
  }
  return total
}
