/** Pauses the engines of a pool, and lets them go on, so that no answer mixes two versions of the weights. */
import type { PausedEngine } from '../../core/contract/engine-signal.ts'
import type { EngineDigest } from '../../core/contract/pool-digest.ts'
import { serverIdOf } from '../../core/contract/rank-id.ts'
import type { EngineType, PauseMode } from '../../engines/engine-type.ts'
import type { Ports } from '../../ports.ts'
import { type EngineTarget, isOwnEngine } from '../../ports/engine-target.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import { timersOf } from '../../timers.ts'
import { commandEngine } from './engine-command.ts'
import { readRoute } from '../engine-route.ts'
import { knownEngines } from '../known-engines.ts'
import { renewalMs } from '../lease-keeper.ts'
import { poolOf, type PoolRoute } from '../pool-route.ts'
import { type FencedEngines, runningBookings } from './running-bookings.ts'

/** Intervals at which the pool is asked whether its requests have ended, ms: a tenth of the wait so far. */
const MIN_LOOK_MS = 50
const MAX_LOOK_MS = 5_000

/** Time limit of the version of the weights, ms. */
const WEIGHTS_MS = 2_000

/** Time for the answers that were ended to be released, ms. */
const FENCE_MS = 10_000

export interface PausePart {
  readonly ports: Pick<Ports, 'origin' | 'pool' | 'log' | 'timers' | 'now'>
  /** Ends the answers of engines in the other gateways of the group. null: there are none. */
  readonly fenceOthers: ((fenced: FencedEngines) => Promise<unknown>) | null
  readonly scope: RequestScope
  readonly route: PoolRoute
}

interface PauseOptions {
  readonly mode: PauseMode
  /** Longest wait for running requests, ms. */
  readonly waitMs: number
}

/**
 * `held`: the gateway sends it nothing, and the engine itself cannot be paused. `running`: its requests have not ended.
 * `failed`: it did not obey.
 */
type PausedState = 'paused' | 'held' | 'running' | 'failed'

export interface EnginePause {
  readonly cluster: string
  readonly engine: string
  readonly state: PausedState | 'resumed'
  /** Version of the weights; null: unknown. */
  readonly weightVersion: string | null
}

interface KnownTarget {
  readonly target: EngineTarget
  readonly type: EngineType
  readonly weights: string | null
}

/** Holds requests of the pool back, then pauses its engines. The pool stays paused whatever the engines answer. */
export async function pausePool(part: PausePart, options: PauseOptions): Promise<readonly EnginePause[]> {
  const { mode } = options
  const known = await knownTargets(part)
  await signal(part, (id) => ({
    kind: 'pause',
    engine: id,
    paused: { keeps: mode === 'keep', weights: known.find(({ target }) => target.id === id)?.weights ?? null },
  }))
  if (mode === 'abort') await fence(part, idsOf(known))
  return Promise.all(known.map((one) => pauseOne(part, options, one)))
}

async function pauseOne(part: PausePart, { mode, waitMs }: PauseOptions, known: KnownTarget): Promise<EnginePause> {
  const { target, type } = known
  const of = (state: PausedState): EnginePause => stateOf(part, known, state)
  const call = type.sleep?.pause?.(mode) ?? null
  const idle = (): Promise<boolean> => untilIdle(part, [target.id], waitMs)
  if (mode === 'wait' && !(await idle())) return of('running')
  const result = call === null ? 'lacks' : await commandEngine(part.ports, target, call, waitMs)
  if (result !== 'lacks') return of(result === 'obeyed' ? 'paused' : 'failed')
  // Nothing but the end of its requests stops it.
  return of((await idle()) ? 'held' : 'running')
}

/** Ends the answers that would mix two versions, then lets the engines and the pool go on. */
export async function resumePool(part: PausePart, { isSame }: { readonly isSame: boolean }) {
  const known = await knownTargets(part)
  const { engines } = await poolOf(part.ports, part.route).digest()
  return Promise.all(
    known.map(async (one) => {
      const paused = pausedOf(engines, one.target.id)
      const isChanged = !isSame && (paused?.weights == null || paused.weights !== one.weights)
      return resumeOne(part, one, { paused, isChanged })
    }),
  )
}

interface ResumedEngine {
  /** null: the gateway did not pause it. */
  readonly paused: PausedEngine | null
  readonly isChanged: boolean
}

async function resumeOne(
  part: PausePart,
  known: KnownTarget,
  { paused, isChanged }: ResumedEngine,
): Promise<EnginePause> {
  const { target, type } = known
  if (isChanged) {
    await fence(part, [target.id])
    // Other isolates end their answers when they renew their bookings.
    const limitMs = FENCE_MS + renewalMs(part.route.pool.leaseMs)
    if (paused !== null && !(await untilIdle(part, [target.id], limitMs))) return stateOf(part, known, 'running')
  }
  const call = type.sleep?.resume ?? null
  const result = call === null ? 'lacks' : await commandEngine(part.ports, target, call, FENCE_MS)
  if (result === 'failed') return stateOf(part, known, 'failed')
  const isCold = isChanged || paused?.keeps !== true
  await poolOf(part.ports, part.route).observe([{ kind: 'pause', engine: target.id, paused: null, isCold }])
  return stateOf(part, known, 'resumed')
}

/** Engines with an address of their own: another gateway, or a provider, updates its weights itself. */
function knownTargets({ ports, route }: PausePart): Promise<readonly KnownTarget[]> {
  const own = [...route.targets.values()].filter(isOwnEngine)
  return Promise.all(
    own.map(async (target) => {
      const type = knownEngines(ports.origin).typeOf(target)
      return { target, type, weights: await weightsOf(ports, target, type) }
    }),
  )
}

async function weightsOf(
  { origin }: PausePart['ports'],
  target: EngineTarget,
  { sleep }: EngineType,
): Promise<string | null> {
  if (sleep === null) return null
  try {
    const { status, text } = await readRoute(origin, target, sleep.weights.path, { limitMs: WEIGHTS_MS })
    return status === 200 ? sleep.weights.read(text) : null
  } catch {
    return null
  }
}

/** Ends the answers of engines at once in this gateway, its threads and its replicas, and soon in other isolates. */
async function fence(part: PausePart, engines: readonly string[]): Promise<void> {
  const { ports, fenceOthers, route } = part
  const fenced = { cluster: route.cluster.id, pool: route.pool.model, engines }
  runningBookings(ports.origin).fence(fenced)
  await fenceOthers?.(fenced)
  await poolOf(part.ports, part.route).observe(engines.map((engine) => ({ kind: 'fence', engine })))
}

/** Waits until no request is at the engines. false: the limit came first. */
async function untilIdle(part: PausePart, engines: readonly string[], limitMs: number): Promise<boolean> {
  const { ports, scope } = part
  const startedAt = ports.now()
  for (;;) {
    const { engines: digests } = await poolOf(part.ports, part.route).digest()
    if (!digests.some(({ id, requests }) => requests > 0 && isAt(id, engines))) return true
    const waitedMs = ports.now() - startedAt
    if (waitedMs >= limitMs) return false
    const lookMs = Math.min(MAX_LOOK_MS, Math.max(MIN_LOOK_MS, waitedMs / 10), limitMs - waitedMs)
    await new Promise<void>((resolve) => timersOf(scope, ports).set(lookMs, resolve))
  }
}

const isAt = (id: string, engines: readonly string[]): boolean =>
  engines.includes(id) || engines.includes(serverIdOf(id))

const pausedOf = (engines: readonly EngineDigest[], id: string): PausedEngine | null =>
  engines.find((one) => isAt(one.id, [id]) && one.paused !== undefined)?.paused ?? null

const idsOf = (known: readonly KnownTarget[]): string[] => known.map(({ target }) => target.id)

const stateOf = ({ route }: PausePart, { target, weights }: KnownTarget, state: EnginePause['state']): EnginePause => ({
  cluster: route.cluster.id,
  engine: target.id,
  state,
  weightVersion: weights,
})

async function signal(part: PausePart, of: (id: string) => EnginePauseSignal): Promise<void> {
  await poolOf(part.ports, part.route).observe([...part.route.targets.keys()].map(of))
}

type EnginePauseSignal = Extract<Parameters<ReturnType<Ports['pool']>['observe']>[0][number], { kind: 'pause' }>
