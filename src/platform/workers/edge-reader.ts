import type { EdgeObject } from '../../../durable/edge-object.ts'
import type { HubView } from '../../api/worker-group.ts'
import { EdgeViews, type EdgeViewsParts } from './edge-views.ts'

/** Reads the shared object for the views that it takes of itself. It belongs to no isolate, and sends nothing. */
export class EdgeReader extends EdgeViews {
  readonly #log: EdgeViewsParts['log']
  readonly #ownStart = Date.now()
  #status: Awaited<ReturnType<EdgeObject['status']>> | null = null
  #hasFailed = false
  protected readonly ownIsolate = null

  constructor(parts: EdgeViewsParts) {
    super(parts)
    this.#log = parts.log
  }

  get startedAt(): number {
    return Math.min(this.#ownStart, this.#status?.startedAt ?? Infinity)
  }

  get view(): HubView {
    return { shared: this.#status !== null && !this.#hasFailed, isolates: this.#status?.isolates ?? 1 }
  }

  /** It serves no requests. */
  ended(): void {}

  /** Reads the fields of `view`, before a view is taken. */
  async readStatus(): Promise<void> {
    this.#status = await this.remote().status()
    this.#hasFailed = false
  }

  protected async refresh(): Promise<void> {}

  protected failed(error: unknown): void {
    // One warning until the object answers again.
    if (!this.#hasFailed) this.#log.warn('edge_unreachable', { error })
    this.#hasFailed = true
  }
}
