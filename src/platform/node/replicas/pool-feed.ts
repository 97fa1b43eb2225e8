/** Exchange of one pool's bookings with the other replicas. */
import type { Decision } from '../../../core/contract/contract.ts'
import type { PoolName } from '../../../ports.ts'
import { withTimeout } from '../../../timeout.ts'
import { Following, type FollowingParts } from './following.ts'
import { OpenBookings } from './open-bookings.ts'
import { type NewsParts, PoolNews } from './pool-news.ts'
import type { PoolKeys } from './pool-parts.ts'
import { SCRIPTS } from './scripts.ts'

const LEAVE_MS = 1_000

export type FeedParts = Omit<FollowingParts & NewsParts, 'keys' | 'refresh'> & { readonly prefix: string }

export class PoolFeed {
  readonly open: OpenBookings
  readonly following: Following
  readonly news: PoolNews
  readonly #parts: FeedParts
  readonly #keys: PoolKeys
  /** Last heartbeat that was answered; monotonic ms. */
  #confirmedAt = performance.now()

  constructor([cluster, pool]: PoolName, parts: FeedParts) {
    this.#parts = parts
    const tag = `${parts.prefix}:{${encodeURIComponent(cluster)}/${encodeURIComponent(pool)}}`
    const open = (replica: string) => `${tag}:open:${replica}`
    const keys = { number: `${tag}:number`, present: `${tag}:replicas`, channel: `${tag}:events`, open }
    this.#keys = keys
    this.news = new PoolNews({ ...parts, keys }, () => this.open)
    this.open = new OpenBookings({ ...parts, keys }, () => this.news.fields())
    const refresh = () => void this.heartbeat().catch(parts.rejected)
    this.following = new Following({ ...parts, keys, refresh }, (event) => this.news.received(event))
  }

  /** Time since the server last listed the present replicas, in ms. */
  get awayMs(): number {
    return performance.now() - this.#confirmedAt
  }

  /** Renews the presence of this replica and checks that of the others. Rejects if the server does not answer. */
  async heartbeat(): Promise<void> {
    const { replica, leaseMs, control } = this.#parts
    const { number: last, open, present: all, channel } = this.#keys
    const { written } = this.open
    const given = [replica, String(written.generation), channel, String(leaseMs), String(written.last)]
    const answer = await control.run(SCRIPTS.heartbeat, [last, open(replica), all], given)
    this.#confirmedAt = performance.now()
    const [registered, number, ...present] = answer as readonly (string | number)[]
    if (written.generation > 0 && Number(registered) === 0) this.open.lost(written.generation)
    this.following.checked({ number: Number(number), present: present.map(String) })
  }

  /** Publishes progress; renews and expires bookings. */
  tick(): void {
    this.open.tick()
    this.following.tick(performance.now(), this.awayMs)
  }

  /** A decision of another replica; null: there is none. */
  async explain(id: string): Promise<Decision | null> {
    return this.following.peers().next().done === true ? null : this.news.explain(id)
  }

  async close(): Promise<void> {
    this.following.unsubscribed()
    await withTimeout(LEAVE_MS, this.open.leave())
  }
}
