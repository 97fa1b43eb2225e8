import type { ClusterObject } from '../../../durable/cluster.ts'
import type { BookingEvent } from '../../core/contract/legs.ts'
import type { Admission, Resume } from '../../core/contract/contract.ts'
import { type AdmitAnswer, type ClusterTransport, type PoolMethod, ClusterClient } from '../../origin/cluster-client.ts'
import type { RequestScope, Cluster } from '../../ports.ts'
import { RegionLedger } from '../../core/edge/region-ledger.ts'
import { withAutoConfigure, type PoolSource } from '../../origin/auto-configure.ts'
import type { EdgeClient } from './edge-client.ts'
import { RegionCluster } from './region-cluster.ts'
import { poolOfCell, ShardedCluster } from '../../origin/sharded-cluster.ts'

/** Events that one call sends. */
export interface EventBatch {
  readonly bookingEvents: readonly BookingEvent[]
  /** Milliseconds since the epoch. */
  readonly sentAt: number
}

/** Time without an answer, ms, after which a call counts as lost and its events are sent again. */
const LOST_AFTER_MS = 10_000
/** Delay, ms, after which a promised call is no longer expected: its request has ended. */
const LATE_MS = 50
/** Events per call; more would slow down the `admit` that sends them. */
const MAX_BATCH = 1_000
/** About 5 MB. If an object is unreachable for so long, the bookings expire. */
const MAX_QUEUED = 10_000

/**
 * Booking events of all requests of one isolate for one object, queued until a call sends them. Plain data: on Workers
 * no promise and no stub may pass from one request to another. A call that failed returns its batch; a batch without
 * an answer is sent again, because events are idempotent.
 */
export class EventBatcher {
  readonly #now: () => number
  #queue: BookingEvent[] = []
  readonly #inFlight = new Set<EventBatch>()
  /** Time by which a request has promised to send the events, ms since the epoch. */
  #carrierBy = 0
  /** When the queue was last emptied; ms since the epoch. */
  #emptiedAt = 0

  constructor(now: () => number) {
    this.#now = now
  }

  get isEmpty(): boolean {
    return this.#queue.length === 0
  }

  /** true: no request has promised to send it, so the caller must, within `withinMs`. */
  add(bookingEvent: BookingEvent, withinMs: number): boolean {
    this.#queue.push(bookingEvent)
    if (this.#queue.length > MAX_QUEUED) this.#queue.shift()
    const now = this.#now()
    if (now < this.#carrierBy) return false
    this.#carrierBy = now + withinMs + LATE_MS
    return true
  }

  /**
   * Time, ms, that the promised request may still wait because another call sent the queue, so that its events are
   * younger than `withinMs`. 0: it must make its call now.
   */
  lingerMs(withinMs: number): number {
    const now = this.#now()
    const leftMs = this.isEmpty ? 0 : Math.max(0, this.#emptiedAt + withinMs - now)
    if (leftMs > 0) this.#carrierBy = now + leftMs + LATE_MS
    return leftMs
  }

  /** Ends the promise: the next caller of `add` makes the next one. */
  carrierFree(): void {
    this.#carrierBy = 0
  }

  /** Takes the oldest events for a call that starts now. Call `arrived` or `failed` when its result is known. */
  take(): EventBatch {
    const now = this.#now()
    for (const batch of this.#inFlight) if (now - batch.sentAt > LOST_AFTER_MS) this.failed(batch)
    const batch = { bookingEvents: this.#queue.splice(0, MAX_BATCH), sentAt: now }
    if (batch.bookingEvents.length > 0) this.#inFlight.add(batch)
    if (this.isEmpty) this.#emptiedAt = now
    return batch
  }

  arrived(batch: EventBatch): void {
    this.#inFlight.delete(batch)
  }

  /** Puts the events back, before newer ones. */
  failed(batch: EventBatch): void {
    if (this.#inFlight.delete(batch)) this.#queue = [...batch.bookingEvents, ...this.#queue].slice(-MAX_QUEUED)
  }
}

/** Time, ms, that an `admit` may take beyond its usual time. */
const ADMIT_BUDGET_MS = 50
/** Increase of the usual time, ms per second, while calls take longer: an overload of some seconds is not usual. */
const USUAL_RISE_MS_PER_S = 5

/**
 * Usual time of an `admit`: the least, which is the network's way. The limit is relative to it, because an object that
 * is far from the Worker is late with every call, and still chooses better than an old digest.
 */
export class AdmitPace {
  #usualMs: number | null = null
  #at = 0

  /** null: no call has been answered. */
  get limitMs(): number | null {
    return this.#usualMs === null ? null : this.#usualMs + ADMIT_BUDGET_MS
  }

  /** Records an answered call; milliseconds since the epoch. */
  took(from: number, now: number): void {
    const tookMs = now - from
    const mostMs = (this.#usualMs ?? Infinity) + (USUAL_RISE_MS_PER_S * (now - this.#at)) / 1000
    this.#usualMs = Math.min(tookMs, mostMs)
    this.#at = now
  }
}

type Stub = DurableObjectStub<ClusterObject>

/**
 * Time, ms, that events wait for an `admit` to send them. The engines of a quiet isolate look busy for this much
 * longer.
 */
const LINGER_MS = 20
/** Limit of checks in a busy isolate whether other calls have sent all events. */
const MAX_CHECKS = 50
/** Delay, ms, before a failed call is repeated once. */
const RETRY_MS = 1_000

const done = Promise.resolve()

/** Calls of a ClusterObject. Rejects if the object is unreachable; the caller then places the request without it. */
export class ObjectTransport implements ClusterTransport {
  readonly #open: () => Stub
  readonly #batcher: EventBatcher
  readonly #pace = new AdmitPace()

  constructor(open: () => Stub, now: () => number = Date.now) {
    this.#open = open
    this.#batcher = new EventBatcher(now)
  }

  admitLimitMs(): number | null {
    return this.#pace.limitMs
  }

  call(method: PoolMethod, args: readonly unknown[]): Promise<unknown> {
    return this.#ask(async (stub) => {
      const methods = stub as unknown as Record<PoolMethod, (...args: readonly unknown[]) => Promise<unknown>>
      return methods[method](...args)
    })
  }

  /** Also sends the queued events of other requests, so that a busy isolate needs no further calls. */
  async admit(admission: Admission): Promise<AdmitAnswer> {
    const batch = this.#batcher.take()
    const askedAt = Date.now()
    try {
      // Safe to repeat: the object gives the same answer for a booking that it has.
      const answer = await this.#ask(async (stub) => stub.admit(admission, batch.bookingEvents))
      this.#pace.took(askedAt, Date.now())
      this.#batcher.arrived(batch)
      return answer
    } catch (error) {
      this.#batcher.failed(batch)
      throw error
    }
  }

  /** No event waits for its answer, which may come late. */
  wait(admission: Admission, waitedMs: number): Promise<AdmitAnswer> {
    return this.#ask(async (stub) => stub.wait(admission, waitedMs))
  }

  async resume(booking: Resume): Promise<void> {
    const answer = await this.#ask(async (stub) => stub.resume(booking))
    if (answer !== null) throw new Error(answer.refusal.detail)
  }

  renew(key: string): Promise<boolean> {
    return this.#ask(async (stub) => stub.renew(key))
  }

  /** Resolves when the object has the event, or at once if another request sends it. Never rejects. */
  send(event: BookingEvent, scope: Pick<RequestScope, 'background'> | undefined): Promise<void> {
    if (!this.#batcher.add(event, LINGER_MS)) return done
    const carried = this.#carry()
    scope?.background(carried)
    return carried
  }

  async #carry(): Promise<void> {
    let waitMs = LINGER_MS
    for (let checks = 0; waitMs > 0 && checks < MAX_CHECKS; checks++) {
      await scheduler.wait(waitMs)
      waitMs = this.#batcher.lingerMs(LINGER_MS)
    }
    for (const delayMs of [RETRY_MS, 0]) {
      this.#batcher.carrierFree()
      if (this.#batcher.isEmpty) return
      const batch = this.#batcher.take()
      try {
        await this.#ask((stub) => stub.tell(batch.bookingEvents))
        return this.#batcher.arrived(batch)
      } catch {
        this.#batcher.failed(batch)
      }
      if (delayMs > 0) await scheduler.wait(delayMs)
    }
  }

  /** Repeats the call on a fresh stub if the platform marks the error as retryable and the object is not overloaded. */
  async #ask<Answer>(ask: (stub: Stub) => Promise<Answer>): Promise<Answer> {
    try {
      return await ask(this.#open())
    } catch (error) {
      if (!isRetryable(error)) throw error
      return ask(this.#open())
    }
  }
}

function isRetryable(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { retryable, overloaded } = error as { readonly retryable?: boolean; readonly overloaded?: boolean }
  return retryable === true && overloaded !== true
}

/** Location of a pool's object, and the pool's configuration. */
export interface PoolPlace extends PoolSource {
  /** Another gateway has the engines: this isolate counts what it sends there, and asks no object. */
  readonly isRegional: boolean
  /** Part of the object's name: raise it to move the object. */
  readonly generation: number
  /** Number of objects that share the pool. Absent: 1. */
  readonly shards?: number
  /** Applies only to the first request that the object ever gets. */
  readonly locationHint: string | null
  /** Where the object may run. Absent, null: anywhere. */
  readonly jurisdiction?: string | null
}

export interface DurableClustersOptions {
  /** The pool as configured now. null: there is none. */
  readonly source: (clusterId: string, pool: string) => PoolPlace | null
  /** State that the isolates share. Absent: each isolate is alone. */
  readonly edge?: EdgeClient | null
  /** Absent: the clock of the runtime. */
  readonly now?: () => number
}

/** The only engine of a region's pool has the name of its cluster. */
function regionCluster(cluster: string, pool: string, edge: EdgeClient | null): Cluster {
  const ledger = new RegionLedger({ cluster, pool, engine: cluster, random: Math.random, epoch: crypto.randomUUID() })
  return new RegionCluster({ cluster, pool, ledger, edge })
}

/** Returns the clusters of an isolate. Each pool of a cluster is one Durable Object, called by RPC. */
export function durableClusters(
  namespace: DurableObjectNamespace<ClusterObject>,
  { source, edge = null, now = () => Date.now() }: DurableClustersOptions,
): (clusterId: string, pool: string) => Cluster {
  const clusters = new Map<string, Cluster>()
  return (clusterId, pool) => {
    const key = JSON.stringify([clusterId, pool])
    const known = clusters.get(key)
    if (known !== undefined) return known
    const place = () => source(clusterId, pool)
    const { isRegional = false, shards = 1 } = place() ?? {}
    const cell = (at: number): Cluster => {
      const own = cellPlace(place, at, shards)
      const transport = new ObjectTransport(opener(namespace, [clusterId, pool], own))
      return withAutoConfigure(new ClusterClient({ transport, now, random: () => Math.random() }), own)
    }
    const cluster = isRegional
      ? withAutoConfigure(regionCluster(clusterId, pool, edge), place)
      : shards === 1
        ? cell(0)
        : new ShardedCluster({
            cells: Array.from({ length: shards }, (_, at) => cell(at)),
            engines: () => place()?.pool.engines.map(({ id }) => id) ?? [],
            now: () => Date.now(),
          })
    clusters.set(key, cluster)
    return cluster
  }
}

interface CellPlace extends PoolPlace {
  /** null: the pool has one object. */
  readonly cell: number | null
}

function cellPlace(place: () => PoolPlace | null, cell: number, shards: number): () => CellPlace | null {
  return () => {
    const found = place()
    if (found === null) return null
    if (shards === 1) return { ...found, cell: null }
    return { ...found, pool: poolOfCell(found.pool, cell, shards), cell }
  }
}

/** Returns a function that opens a stub. A stub that failed stays unusable, so each call gets a new one. */
function opener(
  namespace: DurableObjectNamespace<ClusterObject>,
  [clusterId, pool]: readonly [string, string],
  source: () => CellPlace | null,
): () => Stub {
  let at: { readonly name: string; readonly objects: typeof namespace; readonly id: DurableObjectId } | null = null
  return () => {
    const place = source()
    if (place === null) throw new Error('the pool is not in the configuration')
    const hint = place.locationHint === null ? {} : { locationHint: place.locationHint as DurableObjectLocationHint }
    const name = objectName(clusterId, pool, place.generation) + (place.cell === null ? '' : `:s${place.cell}`)
    // `idFromName` computes a keyed hash, so its result is cached.
    if (at?.name !== name) {
      const { jurisdiction = null } = place
      const objects =
        jurisdiction === null ? namespace : namespace.jurisdiction(jurisdiction as DurableObjectJurisdiction)
      at = { name, objects, id: objects.idFromName(name) }
    }
    return at.objects.get(at.id, hint)
  }
}

/** Name of a pool's object. The name fixes the object's location for good; a new generation is a new object. */
export function objectName(clusterId: string, pool: string, generation: number): string {
  return `cluster:${clusterId}:${pool}:g${generation}`
}
