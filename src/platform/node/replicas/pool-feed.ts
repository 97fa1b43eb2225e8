/** Exchange of one pool with the other replicas: bookings, drains, reports of LMCache servers, decisions. */
import type { Decision } from '../../../core/contract/decision.ts'
import type { EngineSignal } from '../../../core/contract/engine-signal.ts'
import { serverIdOf } from '../../../core/contract/rank-id.ts'
import type { Resume } from '../../../core/contract/resume.ts'
import type { Lease } from '../../../ports/lease.ts'
import type { AdmitResult, PoolName, PoolPort } from '../../../ports/pool.ts'
import { withTimeout } from '../../../timeout.ts'
import { PeerBookings } from './peer-bookings.ts'
import { decodeRegistryCall, encodeRegistryCall, type NewsEvent } from './messages.ts'
import { type BookedRequest, OpenBooking, OpenBookings } from './open-bookings.ts'
import { signalField } from './hash-fields.ts'
import type { FeedParts, Field, OperatorSignal } from './pool-parts.ts'

const LEAVE_MS = 1_000

const ANSWER_MS = 1_000

export class PoolFeed {
  readonly openBookings: OpenBookings
  readonly peerBookings: PeerBookings
  readonly #parts: FeedParts
  /** Latest drain or undrain, and pause or resume, of each engine, by whichever replica it was set. */
  readonly #operatorSignals = new Map<string, { readonly signal: OperatorSignal; readonly at: number }>()
  /** Decisions that other replicas are asked for. */
  readonly #questions = new Map<string, (decision: Decision) => void>()
  #questionCount = 0

  constructor([cluster, pool]: PoolName, parts: FeedParts) {
    this.#parts = parts
    const tag = `${parts.prefix}:{${encodeURIComponent(cluster)}/${encodeURIComponent(pool)}}`
    const keys = {
      present: `${tag}:replicas`,
      channel: `${tag}:events`,
      bookings: (replica: string) => `${tag}:open:${replica}`,
    }
    this.openBookings = new OpenBookings({ ...parts, keys }, () => this.#operatorFields())
    this.peerBookings = new PeerBookings({
      ...parts,
      keys,
      openBookings: this.openBookings,
      onNews: (event) => this.#apply(event),
    })
  }

  /** Publishes progress; renews and expires bookings. */
  tick(): void {
    this.openBookings.tick()
    this.peerBookings.tick(performance.now())
  }

  async close(): Promise<void> {
    this.peerBookings.unsubscribed()
    await withTimeout(LEAVE_MS, this.openBookings.leave())
  }

  /** The pool's ledger, which publishes what it books. */
  replicatedPool(): PoolPort {
    const { localPool, replicas } = this.#parts
    const { local, queue } = localPool
    return {
      ...localPool,
      configure: (version, next) => {
        this.#forgetRemoved(next.engines.map(({ id }) => id))
        return localPool.configure(version, next)
      },
      admit: async (admission) => this.#withPublishedLease(admission, await localPool.admit(admission)),
      local: local && {
        ...local,
        admit: (admission) => {
          const admitted = local.admit(admission)
          return admitted === null ? null : this.#withPublishedLease(admission, admitted)
        },
      },
      queue: queue && {
        ...queue,
        wait: async (admission, waitedMs) => this.#withPublishedLease(admission, await queue.wait(admission, waitedMs)),
      },
      resume: async (booking) => {
        const lease = await localPool.resume(booking)
        // A booking that has ended is not booked again, and not published.
        return lease.renew().then(
          () => this.#publishedLease(lease, booking),
          () => lease,
        )
      },
      observe: (signals) => {
        for (const signal of signals) this.#announceSignal(signal)
        return localPool.observe(signals)
      },
      digest: async () => ({ ...(await localPool.digest()), ...replicas() }),
      ...this.#sharedViews(),
    }
  }

  /** What an operator or an LMCache server asks of any replica. */
  #sharedViews(): Pick<PoolPort, 'registry' | 'decisions' | 'overview'> {
    const { localPool, replicas } = this.#parts
    const { registry, decisions, overview } = localPool
    return {
      registry: registry && {
        call: (call) => {
          if (call.kind !== 'list' && call.kind !== 'lookup')
            this.openBookings.announce(['registry', encodeRegistryCall(call)])
          return registry.call(call)
        },
      },
      decisions: decisions && {
        ...decisions,
        explain: async (id) => (await decisions.explain(id)) ?? this.#explain(id),
      },
      overview: overview && {
        summary: async (count, historySince = 0) => {
          const { digest, ...rest } = await overview.summary(count, historySince)
          return { ...rest, digest: { ...digest, ...replicas() } }
        },
      },
    }
  }

  #withPublishedLease(admission: Resume['admission'], admitted: AdmitResult): AdmitResult {
    if ('refusal' in admitted) return admitted
    return { ...admitted, lease: this.#publishedLease(admitted.lease, { admission, placement: admitted.placement }) }
  }

  #publishedLease(lease: Lease, booking: Pick<BookedRequest, 'admission' | 'placement'> & Partial<Resume>): Lease {
    const { blockTokens, leaseMs } = this.#parts.pool() ?? { blockTokens: 1, leaseMs: 60_000 }
    const open = new OpenBooking(lease, this.openBookings, { ...booking, blockTokens, leaseMs })
    this.openBookings.add(open)
    return open
  }

  /** Drains and pauses for replicas that join later. */
  *#operatorFields(): Generator<Field> {
    for (const [key, { signal, at }] of this.#operatorSignals) yield [key, ['signal', signal, at]]
  }

  /** An engine that was removed and added again is a new one. */
  #forgetRemoved(engines: readonly string[]): void {
    const gone = [...this.#operatorSignals].filter(([, { signal }]) => !engines.includes(serverIdOf(signal.engine)))
    for (const [key] of gone) this.#operatorSignals.delete(key)
    if (gone.length > 0) this.openBookings.rewrite()
  }

  /** A signal of this replica. Probes are not published: every replica makes its own. */
  #announceSignal(signal: EngineSignal): void {
    const now = this.#parts.now()
    if (ANNOUNCED.has(signal.kind)) this.openBookings.announce(['signal', signal, now])
    if (signal.kind === 'drain' || signal.kind === 'pause')
      this.#keep(signal, Math.max(now, 1 + (this.#operatorSignals.get(signalField(signal))?.at ?? 0)))
  }

  /** An event of another replica. */
  #apply(event: NewsEvent): void {
    const { localPool, rejected, forget } = this.#parts
    if (event[0] === 'signal') this.#applySignal(event[1], event[2])
    else if (event[0] === 'registry') void localPool.registry?.call(decodeRegistryCall(event[1])).catch(rejected)
    else if (event[0] === 'forgotten') forget(event[1])
    else if (event[0] === 'explained') this.#questions.get(event[1])?.(event[2])
    else void this.#answer(event[1], event[2])
  }

  #applySignal(signal: EngineSignal, at: number): void {
    const { localPool, pool, drained, fence, rejected } = this.#parts
    if (!pool()?.engines.some(({ id }) => id === serverIdOf(signal.engine))) return
    if (signal.kind === 'fence') fence(signal.engine)
    if (signal.kind === 'drain' || signal.kind === 'pause') {
      const before = this.#operatorSignals.get(signalField(signal))?.signal
      if (!this.#keep(signal, at)) return
      if (signal.kind === 'drain' && signal.draining !== (before !== undefined && isOn(before))) drained(signal)
    }
    localPool.observe([signal]).catch(rejected)
  }

  /** Keeps a drain or pause of any replica and publishes it for those that join later. false: a later one holds. */
  #keep(signal: OperatorSignal, at: number): boolean {
    const key = signalField(signal)
    const known = this.#operatorSignals.get(key)
    // Of two at the same time, all replicas keep the drain or pause.
    if (known !== undefined && (at < known.at || (at === known.at && (!isOn(signal) || isOn(known.signal)))))
      return false
    this.#operatorSignals.set(key, { signal, at })
    this.openBookings.publish('set', key, ['signal', signal, at])
    return true
  }

  /** A decision of another replica; null: none has made it, or it does not answer in time. */
  async #explain(id: string): Promise<Decision | null> {
    if (this.peerBookings.peers().next().done === true) return null
    const question = `${this.#parts.replica}/${++this.#questionCount}`
    const answer = new Promise<Decision>((resolve) => void this.#questions.set(question, resolve))
    this.openBookings.announce(['explain', question, id])
    const found = await withTimeout(ANSWER_MS, answer)
    this.#questions.delete(question)
    return found?.value ?? null
  }

  async #answer(question: string, id: string): Promise<void> {
    const decision = await this.#parts.localPool.decisions?.explain(id).catch(() => null)
    if (decision) this.openBookings.announce(['explained', question, decision])
  }
}

/** Signals for the replicas of the moment: those that join later do not need them. */
const ANNOUNCED: ReadonlySet<EngineSignal['kind']> = new Set(['excused', 'adapter', 'fence'])

const isOn = (signal: OperatorSignal): boolean => (signal.kind === 'drain' ? signal.draining : signal.paused !== null)
