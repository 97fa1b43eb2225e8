import { autoscaledReplay, type UnbegunReplay } from './autoscaled-replay.ts'

/** Part of the trace that the first replicas have to serve, ms: twice the usual start of a replica, and one more. */
const START_MS = 360_000

/** Share that counts as all requests. */
const GOAL = 0.99

/**
 * Smallest number of replicas that keeps the objective of the first minutes, or keeps as much of it as the largest: all
 * rules begin with it, as if the fleet had been right before.
 */
export function startingFleet(given: UnbegunReplay): number {
  const { trace, pace, minReplicas, maxReplicas } = given
  const requests = trace.requests.filter(({ atMs }) => atMs / pace.speed < START_MS)
  const start: UnbegunReplay = { ...given, trace: { ...trace, requests } }
  const keptBy = (beginsWith: number): number => autoscaledReplay({ ...start, beginsWith }, () => undefined).keptShare
  const goal = GOAL * keptBy(maxReplicas)
  let low = minReplicas
  let high = maxReplicas
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    if (keptBy(middle) >= goal) high = middle
    else low = middle + 1
  }
  return low
}
