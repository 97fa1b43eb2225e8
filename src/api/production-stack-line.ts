import type { Exchange } from '../origin/exchange.ts'
import { targetOf } from '../origin/rank-targets.ts'
import type { InferenceRequest } from './inference-request.ts'

/**
 * The line that production-stack's router logs per engine, for tools that parse it. It contains an engine address: off
 * by default.
 */
export function productionStackLine(
  { incoming, routes }: InferenceRequest,
  exchange: Exchange,
  engine: string,
): string {
  const { cluster, stages } = exchange.record
  const route = routes.find((one) => one.cluster.id === cluster)
  const session = route === undefined ? null : exchange.source.admission(route).session
  const chosenAt = (incoming.receivedAt + (stages.edge ?? 0) + (stages.tokens ?? 0) + (stages.admit ?? 0)) / 1000
  const tookS = ((stages.edge ?? 0) + (stages.tokens ?? 0) + (stages.lookup ?? 0) + (stages.admit ?? 0)) / 1000
  return (
    `Routing request ${exchange.requestId} with session id ${session ?? 'None'} to ` +
    `${(route && targetOf(route.targets, engine)?.url) ?? 'None'} at ${chosenAt}, process time = ${tookS.toFixed(4)}`
  )
}
