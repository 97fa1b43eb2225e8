import type { EdgeClient } from './edge-client.ts'
import type { EdgeViews } from './edge-views.ts'

/** Connection of a gateway to the object that the isolates of a Worker share. */
export interface EdgeAccess {
  readonly views: EdgeViews
  /** Sends what changes in this isolate. null: the gateway takes views, and serves no requests. */
  readonly client: EdgeClient | null
}
