import type { EngineDigest, PoolDigest } from '../../core/contract/pool-digest.ts'
import { type EngineTarget, isOwnEngine } from '../../ports/engine-target.ts'
import type { PoolRoute } from '../pool-route.ts'

/** Running requests, and seconds of queued prefill, up to which an engine has time for a repeated request. */
const IDLE_REQUESTS = 4
const IDLE_QUEUE_S = 0.1

type Pair = readonly [EngineTarget, EngineTarget]

/**
 * Returns the engine of a request and a second one of its kind, both idle enough; null: there is none. An engine that
 * gets no requests because its answers stand out comes first, so that it can return.
 */
export function pairFor(route: PoolRoute, engine: string, digest: PoolDigest, random: () => number): Pair | null {
  const kindOf = (id: string): string => {
    const { role, profile, models } = route.pool.engines.find((one) => one.id === id) ?? {}
    return JSON.stringify([role, profile ?? null, models ?? null])
  }
  const kind = kindOf(engine)
  const idle = digest.engines.filter((one) => isIdle(one) && kindOf(one.id) === kind && isOwn(route, one.id))
  const first = route.targets.get(engine)
  if (first === undefined || !idle.some(({ id }) => id === engine)) return null
  const others = idle.filter(({ id }) => id !== engine)
  const suspects = others.filter(({ compared }) => compared != null && compared.standsOutSince !== null)
  const from = suspects.length > 0 ? suspects : others
  const second = from[Math.floor(random() * from.length)]
  return second === undefined ? null : [first, route.targets.get(second.id)!]
}

/** Requests never leave the pool: other gateways and providers are no siblings. */
function isOwn({ targets }: PoolRoute, id: string): boolean {
  const target = targets.get(id)
  return target !== undefined && isOwnEngine(target)
}

function isIdle({ healthy, asleep, draining, condition = 'well', circuit, requests, ...load }: EngineDigest): boolean {
  if (!healthy || asleep || draining || condition !== 'well' || circuit !== 'closed') return false
  const waiting = load.stats?.waiting ?? 0
  return requests <= IDLE_REQUESTS && waiting === 0 && load.queuedPrefillS <= IDLE_QUEUE_S
}
