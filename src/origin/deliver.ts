/** Names the engine of the final leg to a proxy that sends the request itself, and waits for its first byte. */
import { endedAs } from '../core/contract/outcome.ts'
import type { Delivery } from '../ports/delivery.ts'
import type { EngineTarget } from '../ports/engine-target.ts'
import type { OriginAnswer, EngineRequest } from '../ports/origin.ts'
import type { AttemptContext } from './attempt-context.ts'
import { PendingDispatch, recordHead, requestOf, type SendStep } from './dispatch.ts'
import { addressOf, isInSubset, targetAt } from './engine-address.ts'
import { targetOf } from './rank-targets.ts'
import { passed, type RelayStep } from './relay/relay-steps.ts'

/** `dispatch` for a request whose bytes a proxy moves. */
export const deliver: SendStep = (attempt, finalLeg, onFirstByte) => {
  const { id, scope } = attempt.exchange
  const { delivery } = scope
  if (delivery === undefined) throw new Error(`request ${id} has no proxy that delivers it`)
  const request = requestOf(attempt, finalLeg)
  return new Promise((resolve, reject) => {
    const parts = { request, onHead: recordHead, onFirstByte, resolve, reject }
    let pending = new PendingDispatch({ ...parts, attempt })
    const { patienceMs } = pending
    delivery.begin(
      { ...request, fallbacks: fallbacksOf(attempt, request.target, delivery) },
      {
        patienceMs,
        head(answer) {
          const served = servedBy(attempt, answer, request)
          if (served !== null)
            pending = new PendingDispatch({
              ...parts,
              attempt: served,
              request: { ...request, target: served.placed.engine },
            })
          return pending.head(answer)
        },
        firstByte: (answer, early) => pending.firstByte(answer, early),
        failed: reject,
      },
    )
  })
}

/** Only engines that get the same headers: the proxy sends one request to any of them. */
function fallbacksOf(
  { placed }: AttemptContext,
  target: EngineTarget,
  { maxFallbacks: max, subset }: Pick<Delivery, 'maxFallbacks' | 'subset'>,
): readonly EngineTarget[] {
  if (max === 0 || placed.placement.kind !== 'whole') return []
  const headers = JSON.stringify(target.headers)
  return (
    placed.placement.runnersUp
      .map((id) => targetOf(placed.route.targets, id))
      .filter((other) => other !== undefined)
      // One that was discovered while the request waited may be outside.
      .filter((other) => subset === null || isInSubset(other, subset))
      .filter((other) => JSON.stringify(other.headers) === headers && addressOf(other) !== addressOf(target))
      .slice(0, max)
  )
}

/**
 * Moves the booking to the engine that answered, if the proxy has chosen another one because it could not connect to
 * the first. null: the placement stands.
 */
function servedBy(attempt: AttemptContext, { served }: OriginAnswer, { target }: Pick<EngineRequest, 'target'>) {
  if (served === undefined || served === addressOf(target)) return null
  const { placed, exchange, ports, stages } = attempt
  const engine = targetAt(placed.route.targets, served)
  const outcome = {
    ...endedAs('engine_failed'),
    failure: 'connect' as const,
    failedEngine: target.id,
    stages: stages.snapshot(),
  }
  ports.log.warn('attempt_failed', {
    id: exchange.id,
    cluster: placed.route.cluster.id,
    engine: target.id,
    failure: 'connect',
    served: engine?.id ?? 'unknown',
  })
  attempt.probeSoon?.(placed.route, target)
  if (engine === undefined) {
    const released = placed.booking.release(outcome)
    if (released !== null) exchange.scope.background(released)
    return null
  }
  const placement = { kind: 'whole', engine: engine.id, runnersUp: [] } as const
  placed.booking.moveTo(placement, outcome)
  return { ...attempt, placed: { ...placed, engine, placement, notes: [...placed.notes, `moved_from=${target.id}`] } }
}

/** Runs the step if the proxy returns the response, and passes it otherwise. */
export const unlessUnchanged =
  (next: RelayStep): RelayStep =>
  (relay) =>
    relay.isChangeable ? next(relay) : passed(relay)
