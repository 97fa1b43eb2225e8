import type { Delivery } from './delivery.ts'
import type { RelayScope } from './relay.ts'

/** Context of one incoming request. The entry point makes it. */
export interface RequestScope extends RelayScope {
  /** Address of the client for logs and limits; null when unknown. */
  readonly remoteAddress: string | null
  /** The request came in at `ttft.listen`, whose reporters have no keys. */
  readonly isReportListener?: boolean
  /**
   * Returns a function that has the callback run in this request, for callers outside it. Absent: they may call it
   * themselves.
   */
  readonly bind?: (callback: () => void) => () => void
  /** A proxy sends the request to the engine. Absent: the gateway does. */
  readonly delivery?: Delivery
}
