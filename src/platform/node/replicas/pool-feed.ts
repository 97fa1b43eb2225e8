/** Exchange of one pool with the other replicas: bookings, drains, reports of LMCache servers, decisions. */
import type {
  Decision,
  EngineSignal,
  PoolConfig,
  ReplicaDigest,
  Resume,
  Result,
} from '../../../core/contract/contract.ts'
import type { RegistryCall } from '../../../core/lmcache/registry-call.ts'
import type { Admitted, Cluster, Lease, PoolName } from '../../../ports.ts'
import { withTimeout } from '../../../timeout.ts'
import type { Link } from './connection.ts'
import { Following } from './following.ts'
import { base64, lanes, type NewsEvent, type PoolEvent } from './messages.ts'
import { type Made, OpenBooking, OpenBookings } from './open-bookings.ts'

const LEAVE_MS = 1_000
const ANSWER_MS = 1_000

/** Names of one pool on the server. All have the same hash tag, so they lie in one slot of a cluster. */
export interface PoolKeys {
  readonly present: string
  readonly channel: string
  readonly open: (replica: string) => string
}

export interface PoolParts {
  /** Id of this replica. */
  readonly replica: string
  readonly keys: PoolKeys
  readonly leaseMs: number
  /** Carries the events of this replica. */
  readonly publish: Pick<Link, 'client' | 'run'>
  /** Heartbeats and snapshots, which must not wait behind events. */
  readonly control: Pick<Link, 'client' | 'run'>
  /** Own state of the pool, without the other replicas; methods of `withAutoConfigure` need no `this`. */
  readonly ledger: Cluster
  /** null: the pool is not configured any more. */
  readonly pool: () => PoolConfig | null
  /** Milliseconds since the epoch. */
  readonly now: () => number
  readonly rejected: (error: Error) => void
}

/** An event with its field in the hash of open bookings. */
export type Field = readonly [field: string, event: PoolEvent]
export type Drain = Extract<EngineSignal, { readonly kind: 'drain' }>
/** Calls that change a registry; queries are answered locally. */
type RegistryChange = Exclude<RegistryCall, { readonly kind: 'list' | 'lookup' }>

export interface FeedParts extends Omit<PoolParts, 'keys'> {
  readonly prefix: string
  readonly replicas: () => { readonly replicas: readonly ReplicaDigest[]; readonly replicasUp: boolean }
  readonly drained: (signal: Drain) => void
  readonly forget: (responseId: string) => void
  readonly joined: (replica: string) => void
  readonly left: (replica: string, bookings: number, result: Result) => void
  /** The subscription does not work and is made again on a new connection. */
  readonly failed: (error: Error) => void
}

export class PoolFeed {
  readonly open: OpenBookings
  readonly following: Following
  readonly #parts: FeedParts
  /** Latest drain or undrain of each engine, by whichever replica it was set. */
  readonly #drains = new Map<string, { readonly signal: Drain; readonly at: number }>()
  /** Decisions that other replicas are asked for. */
  readonly #questions = new Map<string, (decision: Decision) => void>()
  #asked = 0

  constructor([cluster, pool]: PoolName, parts: FeedParts) {
    this.#parts = parts
    const tag = `${parts.prefix}:{${encodeURIComponent(cluster)}/${encodeURIComponent(pool)}}`
    const keys = {
      present: `${tag}:replicas`,
      channel: `${tag}:events`,
      open: (replica: string) => `${tag}:open:${replica}`,
    }
    this.open = new OpenBookings({ ...parts, keys }, () => this.#drainFields())
    this.following = new Following({ ...parts, keys, open: this.open, received: (event) => this.#received(event) })
  }

  /** Publishes progress; renews and expires bookings. */
  tick(): void {
    this.open.tick()
    this.following.tick(performance.now())
  }

  async close(): Promise<void> {
    this.following.unsubscribed()
    await withTimeout(LEAVE_MS, this.open.leave())
  }

  /** The pool's ledger, which publishes what it books. */
  cluster(): Cluster {
    const { ledger, replicas } = this.#parts
    return {
      ...ledger,
      configure: (version, next) => {
        this.#configured(next.engines.map(({ id }) => id))
        return ledger.configure(version, next)
      },
      admit: async (admission) => this.#published(admission, await ledger.admit(admission)),
      admitNow: (admission) => {
        const admitted = ledger.admitNow?.(admission) ?? null
        return admitted === null ? null : this.#published(admission, admitted)
      },
      wait: async (admission, waitedMs) => this.#published(admission, await ledger.wait!(admission, waitedMs)),
      resume: async (booking) => {
        const lease = await ledger.resume(booking)
        // A booking that has ended is not booked again, and not published.
        return lease.renew().then(
          () => this.#leased(lease, booking),
          () => lease,
        )
      },
      observe: (signals) => {
        for (const signal of signals) this.#signalled(signal)
        return ledger.observe(signals)
      },
      registry: (call) => {
        if (call.kind !== 'list' && call.kind !== 'lookup') this.open.announce(['registry', packedCall(call)])
        return ledger.registry!(call)
      },
      digest: async () => ({ ...(await ledger.digest()), ...replicas() }),
      explain: async (id) => (await ledger.explain(id)) ?? this.#explain(id),
      summary: async (decisions, historySince = 0) => {
        const { digest, ...rest } = await ledger.summary!(decisions, historySince)
        return { ...rest, digest: { ...digest, ...replicas() } }
      },
    }
  }

  #published(admission: Resume['admission'], admitted: Admitted): Admitted {
    if ('refusal' in admitted) return admitted
    return { ...admitted, lease: this.#leased(admitted.lease, { admission, placement: admitted.placement }) }
  }

  #leased(lease: Lease, booking: Pick<Made, 'admission' | 'placement'> & Partial<Resume>): Lease {
    const { blockTokens, leaseMs } = this.#parts.pool() ?? { blockTokens: 1, leaseMs: 60_000 }
    const made = new OpenBooking(lease, this.open, { ...booking, blockTokens, leaseMs })
    this.open.add(made)
    return made
  }

  /** Drains for replicas that join later. */
  *#drainFields(): Generator<Field> {
    for (const [engine, { signal, at }] of this.#drains) yield [`s${engine}`, ['signal', signal, at]]
  }

  /** An engine that was removed and added again is a new one. */
  #configured(engines: readonly string[]): void {
    const gone = [...this.#drains.keys()].filter((engine) => !engines.includes(engine))
    for (const engine of gone) this.#drains.delete(engine)
    if (gone.length > 0) this.open.rewrite()
  }

  /** A signal of this replica. Probes are not published: every replica makes its own. */
  #signalled(signal: EngineSignal): void {
    const now = this.#parts.now()
    if (signal.kind === 'excused') this.open.announce(['signal', signal, now])
    if (signal.kind === 'drain') this.#keep(signal, Math.max(now, 1 + (this.#drains.get(signal.engine)?.at ?? 0)))
  }

  /** An event of another replica. */
  #received(event: NewsEvent): void {
    const { ledger, rejected, forget } = this.#parts
    if (event[0] === 'signal') this.#signalReceived(event[1], event[2])
    else if (event[0] === 'registry') void ledger.registry?.(unpackedCall(event[1])).catch(rejected)
    else if (event[0] === 'forgotten') forget(event[1])
    else if (event[0] === 'explained') this.#questions.get(event[1])?.(event[2])
    else void this.#answer(event[1], event[2])
  }

  #signalReceived(signal: EngineSignal, at: number): void {
    const { ledger, pool, drained, rejected } = this.#parts
    if (!pool()?.engines.some(({ id }) => id === signal.engine)) return
    if (signal.kind === 'drain') {
      const before = this.#drains.get(signal.engine)?.signal.draining ?? false
      if (!this.#keep(signal, at)) return
      if (signal.draining !== before) drained(signal)
    }
    ledger.observe([signal]).catch(rejected)
  }

  /** Keeps a drain of any replica and publishes it for those that join later. false: a later one holds. */
  #keep(signal: Drain, at: number): boolean {
    const known = this.#drains.get(signal.engine)
    // Of two at the same time, all replicas keep the drain.
    if (known !== undefined && (at < known.at || (at === known.at && (!signal.draining || known.signal.draining))))
      return false
    this.#drains.set(signal.engine, { signal, at })
    this.open.publish('s', `s${signal.engine}`, ['signal', signal, at])
    return true
  }

  /** A decision of another replica; null: none has made it, or it does not answer in time. */
  async #explain(id: string): Promise<Decision | null> {
    if (this.following.peers().next().done === true) return null
    const question = `${this.#parts.replica}/${++this.#asked}`
    const answer = new Promise<Decision>((resolve) => void this.#questions.set(question, resolve))
    this.open.announce(['explain', question, id])
    const found = await withTimeout(ANSWER_MS, answer)
    this.#questions.delete(question)
    return found?.value ?? null
  }

  async #answer(question: string, id: string): Promise<void> {
    const decision = await this.#parts.ledger.explain(id).catch(() => null)
    if (decision) this.open.announce(['explained', question, decision])
  }
}

export const packedCall = (call: RegistryChange): string =>
  JSON.stringify(call, (_name, value: unknown) =>
    value instanceof Uint32Array ? { lanes: base64(value) } : value instanceof Uint8Array ? [...value] : value,
  )

export const unpackedCall = (json: string): RegistryChange =>
  JSON.parse(json, (name, value: { readonly lanes: string }) =>
    name === 'keys' && typeof value.lanes === 'string'
      ? lanes(value.lanes)
      : name === 'ranks' && Array.isArray(value)
        ? Uint8Array.from(value)
        : value,
  ) as RegistryChange
