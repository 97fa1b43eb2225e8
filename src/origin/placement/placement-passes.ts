/** Passes over the pools in which one attempt looks for an engine. Pure: the table below is all of the order. */
import type { Admission } from '../../core/contract/admission.ts'
import type { PoolRoute } from '../pool-route.ts'

/** A pass that a refusal can offer. */
type OfferedPass = 'open_circuits' | 'queue'

type PassKind = 'second_engine' | 'one_cluster' | 'all_clusters' | OfferedPass

interface PassTraits {
  /** Engines with open circuits are allowed where too few others are left. */
  readonly asks: Pick<Admission, 'isLastResort'>
  /** The request waits for room. */
  readonly waits: boolean
  /** Passes that may follow if every pool refuses: the first that a pool has offered. None: the refusal is final. */
  readonly next: readonly OfferedPass[]
}

const LAST_RESORT = { isLastResort: true }

/** Transitions. A placement ends the search in each state. */
const PASSES: Readonly<Record<PassKind, PassTraits>> = {
  /** The earlier attempt runs on, so nothing is forced. */
  second_engine: { asks: {}, waits: false, next: [] },
  one_cluster: { asks: LAST_RESORT, waits: false, next: ['queue'] },
  /** Another cluster is better than an engine with an open circuit. */
  all_clusters: { asks: {}, waits: false, next: ['open_circuits', 'queue'] },
  open_circuits: { asks: LAST_RESORT, waits: false, next: ['queue'] },
  queue: { asks: LAST_RESORT, waits: true, next: [] },
}

export interface Pass extends Omit<PassTraits, 'next'> {
  readonly kind: PassKind
  /** Pools that are asked, in this order. */
  readonly routes: readonly PoolRoute[]
  /** A cluster is chosen among several. */
  readonly isChosen: boolean
  /** Notes of the passes before. */
  readonly notes: readonly string[]
  /** Pools of the passes before in which the request may wait. */
  readonly mayWait: readonly PoolRoute[]
}

/** Result of a pass in which every pool refused. */
export interface RefusedPass {
  /** Pools that would serve the request in panic mode. */
  readonly mayPanic: readonly PoolRoute[]
  /** Pools in which the request may wait for room. */
  readonly mayWait: readonly PoolRoute[]
  readonly notes: readonly string[]
}

const NONE: readonly never[] = []

/** First pass of an attempt beside one that still runs in this pool. */
export const secondPass = (route: PoolRoute): Pass =>
  passOf('second_engine', [route], { isChosen: false, notes: NONE, mayWait: NONE })

/** First pass where all pools are in one cluster. */
export const passOverOne = (routes: readonly PoolRoute[]): Pass =>
  passOf('one_cluster', routes, { isChosen: false, notes: NONE, mayWait: NONE })

/** First pass of a gateway that chooses among clusters. */
export const passOverAll = (routes: readonly PoolRoute[]): Pass =>
  routes.length > 1
    ? passOf('all_clusters', routes, { isChosen: true, notes: NONE, mayWait: NONE })
    : passOverOne(routes)

/** The pass that follows a refusal. null: none, the refusal is final. */
export function passAfter({ kind, isChosen, mayWait: earlier }: Pass, refused: RefusedPass): Pass | null {
  const mayWait = [...earlier, ...refused.mayWait]
  // A request waits in one queue.
  const offered = { open_circuits: refused.mayPanic, queue: mayWait.slice(0, 1) }
  const next = PASSES[kind].next.find((pass) => offered[pass].length > 0)
  return next === undefined ? null : passOf(next, offered[next], { isChosen, notes: refused.notes, mayWait })
}

function passOf(
  kind: PassKind,
  routes: readonly PoolRoute[],
  { isChosen, notes, mayWait }: Pick<Pass, 'isChosen' | 'notes' | 'mayWait'>,
): Pass {
  const { asks, waits } = PASSES[kind]
  return { kind, routes, asks, waits, isChosen, notes, mayWait }
}
