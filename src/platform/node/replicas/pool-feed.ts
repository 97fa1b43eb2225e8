/** Exchange of one pool's bookings with the other replicas. */
import type { Decision } from '../../../core/contract/contract.ts'
import type { PoolName } from '../../../ports.ts'
import { withTimeout } from '../../../timeout.ts'
import { Following, type FollowingParts } from './following.ts'
import { OpenBookings } from './open-bookings.ts'
import { type NewsParts, PoolNews } from './pool-news.ts'

const LEAVE_MS = 1_000

export type FeedParts = Omit<FollowingParts & NewsParts, 'keys' | 'open' | 'news'> & { readonly prefix: string }

export class PoolFeed {
  readonly open: OpenBookings
  readonly following: Following
  readonly news: PoolNews

  constructor([cluster, pool]: PoolName, parts: FeedParts) {
    const tag = `${parts.prefix}:{${encodeURIComponent(cluster)}/${encodeURIComponent(pool)}}`
    const open = (replica: string) => `${tag}:open:${replica}`
    const keys = { number: `${tag}:number`, present: `${tag}:replicas`, channel: `${tag}:events`, open }
    this.news = new PoolNews({ ...parts, keys }, () => this.open)
    this.open = new OpenBookings({ ...parts, keys }, () => this.news.fields())
    this.following = new Following({ ...parts, keys, open: this.open, news: this.news })
  }

  /** Publishes progress; renews and expires bookings. */
  tick(): void {
    this.open.tick()
    this.following.tick(performance.now())
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
