/** Health checks of one engine by the routes of its type. */
import { PLAIN, type EngineType, type HealthCheck } from '../../engines/engine-type.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import type { Log } from '../../ports/log.ts'
import { type Origin, OriginError } from '../../ports/origin.ts'
import { readRoute } from '../engine-route.ts'
import type { KnownEngines } from '../known-engines.ts'

/** Interval, ms, of a slow check that has failed. */
const UNHEALTHY_MS = 1_000

/** A check that takes longer than a probe may, and runs beside it. */
interface SlowCheck {
  /** Time of the next one. */
  dueAt: number
  /** Result of the last one. */
  problem: string | null
}

/** By URL and path of a check. */
export interface HealthMemory {
  readonly slow: Map<string, SlowCheck>
  /** Checks whose last result was a failure, which the log has. */
  readonly failed: Set<string>
}

export const newHealthMemory = (): HealthMemory => ({ slow: new Map(), failed: new Set() })

interface HealthContext {
  readonly memory: HealthMemory
  readonly known: KnownEngines
  readonly origin: Origin
  readonly log: Log
  readonly now: () => number
}

type SlowHealthCheck = HealthCheck & { readonly everyMs: number }

interface Health {
  /** null: healthy. `gateway_limit`: the gateway was out of file descriptors. */
  readonly problem: string | null
  readonly server: string | null
}

/** A type without health checks (a gateway as a plain engine) is asked like any other server. */
const checksOf = ({ health }: EngineType): readonly HealthCheck[] => (health.length > 0 ? health : PLAIN.health)

export async function healthOf(context: HealthContext, target: EngineTarget): Promise<Health> {
  let server: string | null = null
  for (const check of checksOf(context.known.typeOf(target))) {
    const { everyMs } = check
    const health =
      everyMs === null ? await checked(context, target, check) : slowHealth(context, target, { ...check, everyMs })
    if (health.problem !== null) return health
    server ??= health.server
  }
  return { problem: null, server }
}

/**
 * Any response counts as healthy unless it reports a failure: an engine without the route, or behind a key, serves
 * requests all the same.
 */
async function checked(context: HealthContext, target: EngineTarget, check: HealthCheck): Promise<Health> {
  const { path, limitMs, badFrom } = check
  try {
    const { status, server } = await readRoute(context.origin, target, path, { limitMs })
    const problem = status < badFrom ? null : `status_${status}`
    if (problem === null) context.memory.failed.delete(`${target.url} ${path}`)
    else logFailure(context, target, { path, problem })
    return { problem, server }
  } catch (error) {
    const problem = error instanceof OriginError ? error.failure : 'reset'
    logFailure(context, target, { path, problem, error })
    return { problem, server: null }
  }
}

/** Logs the first of several failures at `warn`: it has the cause, such as an untrusted certificate. */
function logFailure(
  { log, memory: { failed } }: HealthContext,
  { id, url }: EngineTarget,
  failure: { readonly path: string; readonly problem: string; readonly error?: unknown },
): void {
  const check = `${url} ${failure.path}`
  const isFirst = failure.problem !== 'gateway_limit' && !failed.has(check)
  if (isFirst) failed.add(check)
  log[isFirst ? 'warn' : 'debug']('health_check_failed', { engine: id, ...failure })
}

/** Result of the last slow check. Starts the next one when it is due. */
function slowHealth(context: HealthContext, target: EngineTarget, check: SlowHealthCheck): Health {
  const { now } = context
  const { slow } = context.memory
  const key = `${target.url} ${check.path}`
  const last = slow.get(key) ?? { dueAt: 0, problem: null }
  slow.set(key, last)
  if (last.dueAt <= now()) {
    last.dueAt = now() + check.everyMs
    void checked(context, target, check).then(({ problem }) => {
      last.problem = problem === 'gateway_limit' ? last.problem : problem
      if (problem !== null) last.dueAt = Math.min(last.dueAt, now() + UNHEALTHY_MS)
    })
  }
  return { problem: last.problem, server: null }
}
