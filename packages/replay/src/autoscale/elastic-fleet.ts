import type { GatewayRouter } from '../replay/gateway-router.ts'
import type { EngineGauges } from '../replay/replay-engine.ts'
import type { RunningFleet } from '../replay/run.ts'

/** Interval at which a draining replica is looked at, milliseconds. */
const DRAIN_CHECK_MS = 1_000

interface Replica {
  /** Place of its engine; null: it starts. */
  place: number | null
  readonly orderedAt: number
}

/** Replicas from one change on. */
export interface FleetChange {
  readonly atMs: number
  readonly ready: number
  readonly starting: number
  readonly draining: number
}

/** Replicas that start with a delay, with empty caches, and end by draining. */
export class ElasticFleet {
  readonly #fleet: RunningFleet
  readonly #router: GatewayRouter
  readonly #startMs: number
  /** Oldest first. */
  #replicas: Replica[] = []
  readonly #draining = new Set<Replica>()
  #endedMs = 0
  readonly changes: FleetChange[] = []

  constructor(fleet: RunningFleet, router: GatewayRouter, startMs: number) {
    this.#fleet = fleet
    this.#router = router
    this.#startMs = startMs
  }

  /** Begins with replicas that serve already. */
  begin(count: number): void {
    for (let at = 0; at < count; at += 1) this.#replicas.push({ place: this.#fleet.add(), orderedAt: 0 })
    this.#changed(0)
  }

  get replicas(): number {
    return this.#replicas.length
  }

  get starting(): number {
    return this.#replicas.filter(({ place }) => place === null).length
  }

  /** Gauges of the replicas that serve. */
  gauges(): EngineGauges[] {
    return this.#places().map((place) => this.#fleet.engines[place]!.gauges())
  }

  scaleTo(count: number, now: number): void {
    if (count === this.#replicas.length) return
    while (this.#replicas.length < count) this.#order(now)
    while (this.#replicas.length > count) this.#stop(now)
    this.#changed(now)
  }

  /** Hours for which replicas were paid, from their order to the end of their drain. */
  engineHours(now: number): number {
    const live = [...this.#replicas, ...this.#draining]
    return (this.#endedMs + live.reduce((sum, { orderedAt }) => sum + now - orderedAt, 0)) / 3_600_000
  }

  #order(now: number): void {
    const replica: Replica = { place: null, orderedAt: now }
    this.#replicas.push(replica)
    this.#fleet.at(now + this.#startMs, (at) => {
      if (!this.#replicas.includes(replica)) return
      replica.place = this.#fleet.add()
      this.#changed(at)
    })
  }

  /** Ends a replica: one that starts, else the newest, as a ReplicaSet does. */
  #stop(now: number): void {
    const starting = this.#replicas.findLastIndex(({ place }) => place === null)
    const [replica] = this.#replicas.splice(starting === -1 ? this.#replicas.length - 1 : starting, 1)
    this.#draining.add(replica!)
    this.#drain(replica!, now)
  }

  #drain(replica: Replica, now: number): void {
    const gauges = replica.place === null ? null : this.#fleet.engines[replica.place]!.gauges()
    if (gauges !== null && gauges.running + gauges.waiting > 0) {
      this.#fleet.at(now + DRAIN_CHECK_MS, (at) => this.#drain(replica, at))
      return
    }
    this.#draining.delete(replica)
    this.#endedMs += now - replica.orderedAt
    this.#changed(now)
  }

  #places(): number[] {
    return this.#replicas.flatMap(({ place }) => place ?? [])
  }

  #changed(now: number): void {
    const places = this.#places()
    this.#router.useEngines(places, now)
    const { starting } = this
    this.changes.push({ atMs: now, ready: places.length, starting, draining: this.#draining.size })
  }
}
