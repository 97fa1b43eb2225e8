/** Exchange of one pool's bookings with the other replicas. */
import type { Decision, EngineSignal } from '../../../core/contract/contract.ts'
import type { PoolName } from '../../../ports.ts'
import { withTimeout } from '../../../timeout.ts'
import type { Link } from './connection.ts'
import { Following, type FollowingParts, type Heartbeat } from './following.ts'
import type { PoolEvent } from './messages.ts'
import { OpenBookings, type PoolKeys, type PublishingParts } from './open-bookings.ts'
import { SCRIPTS } from './scripts.ts'

const ANSWER_MS = 1_000

export interface FeedParts
  extends
    Omit<PublishingParts, 'keys'>,
    Omit<FollowingParts, 'keys' | 'control' | 'heartbeat' | 'explain' | 'signalled'> {
  readonly prefix: string
  readonly control: Link
  readonly hasEngine: (engine: string) => boolean
  readonly drained: (signal: Extract<EngineSignal, { readonly kind: 'drain' }>) => void
}

export class PoolFeed {
  readonly open: OpenBookings
  readonly following: Following
  readonly #parts: FeedParts
  readonly #keys: PoolKeys
  /** Decisions that other replicas are asked for. */
  readonly #questions = new Map<string, (decision: Decision) => void>()
  #asked = 0
  /** Last heartbeat or snapshot that was answered; monotonic ms. */
  #confirmedAt = performance.now()

  constructor([cluster, pool]: PoolName, parts: FeedParts) {
    this.#parts = parts
    const tag = `${parts.prefix}:{${encodeURIComponent(cluster)}/${encodeURIComponent(pool)}}`
    const open = (replica: string) => `${tag}:open:${replica}`
    this.#keys = { tag, number: `${tag}:number`, present: `${tag}:replicas`, channel: `${tag}:events`, open }
    const keys = this.#keys
    this.open = new OpenBookings({ ...parts, keys })
    this.following = new Following({
      ...parts,
      keys,
      heartbeat: () => this.#beat(),
      explain: (event) => void this.#explain(event),
      signalled: (signal, at) => this.#signalled(signal, at),
    })
  }

  /** Time since the server last listed the present replicas, in ms. */
  get awayMs(): number {
    return performance.now() - this.#confirmedAt
  }

  /** Renews the presence of this replica. Rejects if the server does not answer. */
  async heartbeat(): Promise<void> {
    const { registered } = this.open
    const answer = await this.#beat()
    if (!answer.registered && registered > 0) this.open.lost(registered)
    this.following.checked(answer)
  }

  /** Publishes progress; renews and expires bookings. */
  tick(): void {
    this.open.tick()
    this.following.tick(performance.now(), this.awayMs)
  }

  /** A decision of another replica; null: none has made it, or it does not answer in time. */
  async explain(id: string): Promise<Decision | null> {
    if (this.following.peers().next().done === true) return null
    const question = `${this.#parts.replica}/${++this.#asked}`
    const answer = new Promise<Decision>((resolve) => void this.#questions.set(question, resolve))
    this.open.announce(['explain', question, id])
    const found = await withTimeout(ANSWER_MS, answer)
    this.#questions.delete(question)
    return found?.value ?? null
  }

  async close(): Promise<void> {
    this.following.close()
    await withTimeout(ANSWER_MS, this.open.leave())
  }

  async #beat(): Promise<Heartbeat> {
    const { replica, leaseMs, control } = this.#parts
    const { tag, number: last, open, present: all, channel } = this.#keys
    const given = [replica, String(this.open.registered), channel, String(leaseMs)]
    const answer = await control.run(SCRIPTS.heartbeat, tag, [last, open(replica), all], given)
    this.#confirmedAt = performance.now()
    const [registered, number, ...present] = answer as readonly (string | number)[]
    return { registered: Number(registered) === 1, number: Number(number), present: present.map(String) }
  }

  async #explain(event: Extract<PoolEvent, readonly ['explain' | 'explained', ...unknown[]]>): Promise<void> {
    if (event[0] === 'explained') return this.#questions.get(event[1])?.(event[2])
    const decision = await Promise.resolve(this.#parts.ledger()?.cluster.explain(event[2])).catch(() => null)
    if (decision) this.open.announce(['explained', event[1], decision])
  }

  #signalled(signal: EngineSignal, at: number): void {
    if (!this.#parts.hasEngine(signal.engine)) return
    if (signal.kind === 'drain') {
      const before = this.open.isDrained(signal.engine)
      if (!this.open.drained(signal, at)) return
      if (signal.draining !== before) this.#parts.drained(signal)
    }
    this.#parts.ledger()?.cluster.observe([signal]).catch(this.#parts.rejected)
  }
}
