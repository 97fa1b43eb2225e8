/** Wakes an engine for requests that wait, and puts one that is not needed to sleep. */
import type { EngineDigest } from '../../core/contract/pool-digest.ts'
import type { EngineSignal } from '../../core/contract/engine-signal.ts'
import { serverIdOf } from '../../core/contract/rank-id.ts'
import type { SleepRules } from '../../engines/engine-type.ts'
import type { Ports } from '../../ports.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import { commandEngine } from './engine-command.ts'
import { readRoute } from '../engine-route.ts'
import { knownEngines } from '../known-engines.ts'
import type { PoolRoute } from '../pool-route.ts'

/** Time limit of a call that loads weights back to the device, or takes them from there, ms. */
const SLEEP_MS = 120_000

const STATE_MS = 2_000

type SleepPorts = Pick<Ports, 'origin' | 'pool' | 'log' | 'now'>

/** Pools of which an engine is being woken. */
const waking = new WeakSet<PoolRoute['pool']>()

/** Wakes one engine of the pool that sleeps, unless one is being woken. Never rejects. */
export async function wakeOne(ports: SleepPorts, route: PoolRoute): Promise<void> {
  if (waking.has(route.pool)) return
  waking.add(route.pool)
  try {
    const { engines, queue } = await poolOf(ports, route).digest()
    // The request has its place by now.
    if (engines.some(({ available }) => available) && (queue?.requests ?? 0) === 0) return
    for (const id of new Set(engines.filter(maySleep).map((one) => one.server ?? one.id))) {
      const target = route.targets.get(id)
      if (target !== undefined && (await wake(ports, route, target))) return
    }
  } catch (error) {
    ports.log.warn('wake_failed', { cluster: route.cluster.id, model: route.pool.model, error })
  } finally {
    waking.delete(route.pool)
  }
}

const maySleep = ({ asleep, healthy, draining, paused }: EngineDigest): boolean =>
  asleep && healthy && !draining && paused === undefined

async function wake(ports: SleepPorts, route: PoolRoute, target: EngineTarget): Promise<boolean> {
  const { sleep } = knownEngines(ports.origin).typeOf(target)
  if (sleep?.wake == null || !(await isAsleep(ports, target, sleep))) return false
  if ((await commandEngine(ports, target, sleep.wake, SLEEP_MS)) !== 'obeyed') return false
  ports.log.info('engine_woken', { cluster: route.cluster.id, engine: target.id })
  await poolOf(ports, route).observe([foundNow(ports, target, false)])
  return true
}

/** Requests of an engine that is only paused are somebody's who updates its weights. */
async function isAsleep({ origin }: SleepPorts, target: EngineTarget, { states }: SleepRules): Promise<boolean> {
  const state = states.find(({ means }) => means === 'asleep')
  if (state === undefined) return false
  const { text } = await readRoute(origin, target, state.path, { limitMs: STATE_MS })
  return new RegExp(`"${state.field}": ?true`).test(text)
}

/** Whether the gateway finds out that an engine of this type sleeps, and can change it. */
export const canSleep = (ports: Pick<Ports, 'origin'>, target: EngineTarget): boolean => {
  const { sleep } = knownEngines(ports.origin).typeOf(target)
  return sleep?.sleep != null && sleep.wake !== null && sleep.states.some(({ means }) => means === 'asleep')
}

/** Puts an engine to sleep if nothing runs there. New requests are held back meanwhile. Never rejects. */
export async function putToSleep(ports: SleepPorts, route: PoolRoute, target: EngineTarget): Promise<void> {
  const pool = poolOf(ports, route)
  const held: EngineSignal = { kind: 'pause', engine: target.id, paused: { keeps: false, weights: null } }
  const { sleep } = knownEngines(ports.origin).typeOf(target)
  try {
    await pool.observe([held])
    const { engines } = await pool.digest()
    const isIdle = engines.every(
      ({ id, requests }) => requests === 0 || (id !== target.id && serverIdOf(id) !== target.id),
    )
    const isAway = isIdle && (await commandEngine(ports, target, sleep!.sleep!, SLEEP_MS)) === 'obeyed'
    if (isAway) ports.log.info('engine_put_to_sleep', { cluster: route.cluster.id, engine: target.id })
    const released: EngineSignal = { kind: 'pause', engine: target.id, paused: null, isCold: isAway }
    await pool.observe(isAway ? [released, foundNow(ports, target, true)] : [released])
  } catch (error) {
    ports.log.warn('sleep_failed', { cluster: route.cluster.id, engine: target.id, error })
  }
}

function foundNow({ now }: SleepPorts, { id: engine }: EngineTarget, asleep: boolean): EngineSignal {
  const at = now()
  return { kind: 'probe', engine, at, sentAt: at, healthy: true, asleep, stats: null }
}

const poolOf = ({ pool }: SleepPorts, route: PoolRoute) => pool(route.cluster.id, route.pool.model)
