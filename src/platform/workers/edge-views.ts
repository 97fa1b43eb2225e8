import type { EdgeObject } from '../../../durable/edge-object.ts'
import type { Decision } from '../../core/contract/decision.ts'
import type { PoolDigest, PoolSummary } from '../../core/contract/pool-digest.ts'
import type { RecentRequest } from '../../core/reports/recent-request.ts'
import type { Log } from '../../ports/log.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import { withDeadline } from '../../timeout.ts'
import type { GroupHub, GroupQuery, HubView, WorkerGroup } from '../../api/worker-group.ts'

/** Name of the object. */
export const EDGE_OBJECT = 'edge:g1'

/** Time limit of a view, ms. */
export const VIEW_MS = 2_000

type Stub = DurableObjectStub<EdgeObject>
/** Methods of the object, without the stub's wrapping of types. */
type Remote = Pick<
  EdgeObject,
  'sync' | 'status' | 'setDraining' | 'digest' | 'summary' | 'decision' | 'request' | 'totals'
>

/** What a view asks of a pool. */
interface SummaryQuery {
  readonly cluster: string
  readonly pool: string
  /** Maximum number of decisions. */
  readonly decisions: number
  readonly historySince: number
}

export interface EdgeViewsParts {
  readonly open: () => Stub
  readonly log: Log
}

/** Reads of the object that the isolates of a Worker share. While it is away, views have what their gateway has. */
export abstract class EdgeViews implements WorkerGroup, GroupHub {
  /** The objects of the pools probe. An isolate has no timer. */
  readonly prober = null
  readonly hub: GroupHub = this
  readonly #parts: EdgeViewsParts

  constructor(parts: EdgeViewsParts) {
    this.#parts = parts
  }

  /** Start of the first isolate, ms since the epoch. */
  abstract get startedAt(): number

  /** State of the connection. */
  abstract get view(): HubView

  abstract ended(request: RecentRequest, scope: RequestScope): void

  /** Isolate whose counters are not read, because the gateway adds its own. null: none. */
  protected abstract readonly ownIsolate: string | null

  /** Called before each read. */
  protected abstract refresh(): Promise<void>

  /** Called when a read has failed. */
  protected abstract failed(error: unknown): void

  /**
   * Isolates cannot be reached one by one: they end fenced answers when they renew their bookings, and exemplars are
   * those of the isolate that answers.
   */
  async ask(query: GroupQuery): Promise<readonly unknown[]> {
    if (query.about === 'fence' || query.about === 'exemplars') return []
    const found = await this.#read<unknown>(
      (object) => (query.about === 'counts' ? object.totals(this.ownIsolate) : object.request(query.id)),
      null,
    )
    return found === null ? [] : [found]
  }

  digest(cluster: string, pool: string, own: () => PoolDigest): Promise<PoolDigest> {
    return this.#read<PoolDigest | null>((object) => object.digest(cluster, pool), null).then((found) => found ?? own())
  }

  summary({ cluster, pool, decisions, historySince }: SummaryQuery, own: () => PoolSummary): Promise<PoolSummary> {
    return this.#read<PoolSummary | null>(
      (object) => object.summary(cluster, pool, decisions, historySince),
      null,
    ).then((found) => found ?? own())
  }

  decision(id: string): Promise<Decision | null> {
    return this.#read<Decision | null>((object) => object.decision(id), null)
  }

  /** Feed of the fleet's views. null: the object is away, or has none. */
  async live(lastEventId: string | null): Promise<ReadableStream<Uint8Array> | null> {
    try {
      const headers = lastEventId === null ? {} : { 'last-event-id': lastEventId }
      const response = await withDeadline(VIEW_MS, this.#parts.open().fetch('https://edge.invalid/live', { headers }))
      if (response.status === 200) return response.body
      await response.body?.cancel()
    } catch (error) {
      this.#parts.log.warn('edge_unreachable', { error })
    }
    return null
  }

  /** A stub that failed stays unusable, so each call gets a new one. */
  protected remote(): Remote {
    return this.#parts.open() as unknown as Remote
  }

  /** `missing`: the object is away. */
  async #read<Value>(read: (object: Remote) => Promise<Value>, missing: Value): Promise<Value> {
    try {
      await this.refresh()
      return await withDeadline(VIEW_MS, read(this.remote()))
    } catch (error) {
      this.failed(error)
      return missing
    }
  }
}
