import type { Delivery } from './delivery.ts'
import type { Timers } from './timers.ts'

/** Context of one incoming request. The entry point makes it. */
export interface RequestScope {
  /** Keeps work alive after the response: `ctx.waitUntil` on Workers, a drained set on Node. */
  background(work: Promise<unknown>): void
  /** Known to the platform's Origin alone, e.g. Node's request and response objects. */
  readonly client: unknown
  /** Address of the client for logs and limits; null when unknown. */
  readonly remoteAddress: string | null
  /** true: the gateway is closing connections, so an abort is not the client's. Absent: never. */
  readonly isClosing?: () => boolean
  /** The request came in at `ttft.listen`, whose reporters have no keys. */
  readonly isReportListener?: boolean
  /**
   * Returns a function that has the callback run in this request, for callers outside it. Absent: any request may call
   * it.
   */
  readonly entered?: (callback: () => void) => () => void
  /** A proxy sends the request to the engine. Absent: the gateway does. */
  readonly delivery?: Delivery
  /** Timers of this request, if a clock may not be shared. Absent: the timers of the ports. */
  readonly timers?: Timers
}
