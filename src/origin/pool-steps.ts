/** Upstream path of one pool, composed of what the pool has configured. */
import { hasAdapters } from '../config/pool-names.ts'
import { withAdapters } from './adapter-loads.ts'
import type { AttemptContext, AttemptStep } from './attempt-context.ts'
import { attemptWith } from './attempt.ts'
import { type LegResult, wholeLeg } from './disagg/final-leg.ts'
import { connectors } from './disagg/connectors.ts'
import { paired } from './disagg/paired-legs.ts'
import { watched, watchedDispatch } from './disagg/watched-leg.ts'
import { earlyLegs } from './disagg/early-legs.ts'
import { oncePerPool } from './once-per-pool.ts'
import type { PoolRoute } from './pool-route.ts'
import { hedge } from './race/hedge.ts'
import { raced } from './race/race.ts'
import { deliver, unlessUnchanged } from './deliver.ts'
import { dispatch } from './dispatch.ts'
import { placeOnPool } from './placement/place-on-pool.ts'
import { countedInFlight } from './placement/counted-in-flight.ts'
import type { PlaceStep } from './placement/place-step.ts'
import { withLookups } from './placement/with-lookups.ts'
import { rescue } from './race/rescue.ts'
import { commented, continued, passed, type RelayStep, renamed, transformed } from './relay/relay-steps.ts'

export interface PoolSteps {
  readonly place: PlaceStep
  /** The first attempt of a request. */
  readonly first: AttemptStep
  /** Further attempts. */
  readonly again: AttemptStep
}

interface StepOptions {
  /** Streams end with their stages as a comment. */
  readonly comments: boolean
  /** Requests are sent to one of several clusters, or to engines behind another gateway. */
  readonly choosesClusters: boolean
  /**
   * `raced`: with a second engine beside a late one, and continuation. `once`: one attempt on one engine, without them.
   * `by_proxy`: the same, and a proxy moves the bytes. Absent: `raced`.
   */
  readonly sends?: 'raced' | 'once' | 'by_proxy'
}

/** Returns the steps of a pool, which are built once. */
export const stepsByPool = (options: StepOptions): ((route: PoolRoute) => PoolSteps) =>
  oncePerPool(({ pool }) => stepsOf(pool, options))

function stepsOf(pool: PoolRoute['pool'], options: StepOptions): PoolSteps {
  const { comments, choosesClusters, sends = 'raced' } = options
  const isRaced = sends === 'raced'
  const isByProxy = sends === 'by_proxy'
  const { hedgeMs } = pool.retry
  const splits = pool.engines.some(({ role }) => role !== 'any')
  let relay: RelayStep = passed
  if (splits) relay = transformed(relay)
  if (pool.retry.midStream !== 'off' && isRaced) relay = continued(relay)
  if (comments) relay = commented(relay)
  if (pool.responseModel === 'requested') relay = renamed(relay)
  const placed = choosesClusters ? countedInFlight(placeOnPool) : placeOnPool
  const ownLegs = splits ? earlyLegs : onlyLeg
  const legs = hasAdapters(pool) ? withAdapters(ownLegs) : ownLegs
  const ownSend = splits ? watchedDispatch : dispatch
  const send = isByProxy ? deliver : ownSend
  const isPaired = splits && connectors[pool.split.connector].isPaired
  const sendLeg = isPaired ? paired(send) : send
  const single = attemptWith({
    legs,
    relay: isByProxy ? unlessUnchanged(relay) : relay,
    send: splits ? watched(sendLeg) : sendLeg,
  })
  return {
    place: pool.lmcache === null ? placed : withLookups(placed),
    first: isRaced ? raced(single, hedgeMs === 'off' ? [rescue] : [hedge(hedgeMs), rescue]) : single,
    again: isRaced ? raced(single, [rescue]) : single,
  }
}

const onlyLeg = (attempt: AttemptContext): LegResult => ({ finalLeg: wholeLeg(attempt) })
