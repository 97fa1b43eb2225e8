/** What one attempt of a request asks of a pool: its admission, with the engines that it must not get. */
import type { Mutable } from '../../core/mutable.ts'
import type { Admission, SecondReason } from '../../core/contract/admission.ts'
import { engineIdsOf } from '../../core/contract/legs.ts'
import type { Placement } from '../../core/contract/placement.ts'
import { serverIdOf } from '../../core/contract/rank-id.ts'
import { itemsToEncode } from '../disagg/encode-stage.ts'
import { idsOutside } from '../engine-address.ts'
import type { Exchange } from '../exchange.ts'
import type { PoolRoute } from '../pool-route.ts'
import type { Pass } from './placement-passes.ts'
import type { AttemptHistory, PlacementSearch, SecondEngine } from './place-step.ts'

export interface AttemptParts extends Pick<PlacementSearch, 'exchange' | 'history' | 'second'> {
  readonly pass: Pass
  readonly route: PoolRoute
  /** Engines that the pool chose and that this configuration does not have. */
  readonly unknown: readonly string[]
}

const none: readonly string[] = []

/** @param elapsedMs time since the request arrived */
export function attemptAdmission(
  { pass, exchange, history, second, route, unknown }: AttemptParts,
  elapsedMs: number,
): Admission {
  const admission = exchange.source.admission(route)
  const avoided = avoidedIn(route, history, pass.waits)
  const outside = outsideOf(route, exchange)
  const avoidsNone = avoided.length + outside.length + unknown.length === 0
  // Optional fields are added afterwards: spreads of empty objects would double the cost of this function.
  const extended: Mutable<Admission> = {
    ...admission,
    configVersion: exchange.configVersion,
    attempt: history.attempt,
    avoid: avoidsNone ? none : [...avoided, ...outside, ...unknown],
    unsplittable: unsplittableIn(exchange, second) ?? admission.unsplittable,
    encodeItems: admission.encodeItems > 0 && second === undefined ? itemsToEncode(exchange, route) : 0,
  }
  if (pass.asks.isLastResort === true) extended.isLastResort = true
  if (history.skipsRetryBudget) extended.moved = true
  if (history.beyondContextTokens !== null) extended.beyondContextTokens = history.beyondContextTokens
  if (history.attempt > 0 && history.failedLegs !== null) extended.failedLegs = history.failedLegs
  if (admission.ttftDeadlineMs !== undefined)
    extended.ttftDeadlineMs = Math.max(0, admission.ttftDeadlineMs - elapsedMs)
  if (exchange.stream && exchange.observe && exchange.protocol.stream !== null) extended.reportsOutput = true
  // The first token of a response that does not pass through the gateway is never seen.
  if (exchange.scope.delivery?.readsAnswer === false) extended.streams = false
  if (second !== undefined) extended.second = secondReason(second)
  return extended
}

const secondReason = ({ kind, first }: SecondEngine): SecondReason =>
  kind === 'hedge' ? { kind } : { kind, from: first.engine.id, attempt: first.attempt }

/** Engines that failed the request. One that waits may get those that were only away. */
function avoidedIn({ cluster }: PoolRoute, { avoid, away }: AttemptHistory, waits: boolean): readonly string[] {
  const avoided = avoid.get(cluster.id) ?? none
  return waits ? avoided.filter((id) => away?.has(id) !== true) : avoided
}

/** Engines that the request must not get. */
function outsideOf({ targets }: PoolRoute, { pinned, scope: { delivery } }: Exchange): readonly string[] {
  const outside = delivery?.subset == null ? none : idsOutside(targets, delivery.subset)
  if (pinned === null) return outside
  // A request bound to one engine avoids all others. What it is bound to is at the server, so any rank may answer.
  return [...[...targets.keys()].filter((id) => id !== serverIdOf(pinned.engine)), ...outside]
}

/** Whether the placement has an engine that the request must not get. */
export function isOutside(placement: Placement, route: PoolRoute, exchange: Exchange): boolean {
  const outside = outsideOf(route, exchange)
  return (
    outside.length > 0 && engineIdsOf(placement).some((id) => outside.includes(id) || outside.includes(serverIdOf(id)))
  )
}

function unsplittableIn({ pinned, scope }: Exchange, second: PlacementSearch['second']): string | null {
  if (pinned !== null) return 'it is bound to one engine'
  if (scope.delivery?.changesAnswer === false) return 'the proxy does not return its response'
  return second === undefined ? null : 'another attempt runs'
}
