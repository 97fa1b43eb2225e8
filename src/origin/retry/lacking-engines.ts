/** Engines that lack the route of a request. Such an answer is no fault, so that no client can eject an engine. */
import type { FailedOutcome } from '../attempt-context.ts'
import type { Exchange } from '../exchange.ts'
import { knownEngines } from '../known-engines.ts'
import { routeNameOf } from './missing-routes.ts'
import type { UpstreamPorts } from '../upstream-ports.ts'

type EnginesByCluster = ReadonlyMap<string, readonly string[]>

const NO_ENGINES: EnginesByCluster = new Map()

/** Engines that are known to lack the route, by cluster. Empty if all are: one of them must answer. */
export function enginesWithoutRoute(
  { method, path, routes, pinned }: Exchange,
  ports: UpstreamPorts,
): EnginesByCluster {
  const { missingRoutes } = knownEngines(ports.origin)
  if (!missingRoutes.isUsed || pinned !== null) return NO_ENGINES
  const now = ports.now()
  const route = routeNameOf(method, path)
  const lacking = new Map<string, string[]>()
  let hasOther = false
  for (const { cluster, targets } of routes) {
    for (const target of targets.values()) {
      if (missingRoutes.isMissing(target, route, now)) addTo(lacking, cluster.id, target.id)
      else hasOther = true
    }
  }
  return hasOther ? lacking : NO_ENGINES
}

function addTo(lists: Map<string, string[]>, key: string, value: string): void {
  const list = lists.get(key)
  if (list === undefined) lists.set(key, [value])
  else list.push(value)
}

/** Records engines that lacked the route, after another engine has answered on it. */
export function learnLacking(failed: readonly FailedOutcome[], ports: UpstreamPorts): void {
  const { missingRoutes } = knownEngines(ports.origin)
  for (const { engine, route } of failed) if (route !== undefined) missingRoutes.learn(engine, route, ports.now())
}

/** The engine has answered there, so it has the route. */
export function forgetLacking(
  { engine, path }: { engine: FailedOutcome['engine']; path: string },
  { method }: Exchange,
  ports: UpstreamPorts,
): void {
  const { missingRoutes } = knownEngines(ports.origin)
  if (missingRoutes.isUsed) missingRoutes.forget(engine, routeNameOf(method, path))
}
