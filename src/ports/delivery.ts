import type { DeliveredRequest, ResponseHandler } from './origin.ts'

/** A proxy that moves the bytes of one request itself, and asks the gateway for an engine only. */
export interface Delivery {
  /**
   * Names the engine to the proxy, in place of `Origin.begin`. Placed, started (head), progressed (body) and ended are
   * calls of the same handler.
   */
  begin(request: DeliveredRequest, handler: ResponseHandler): void
  /** Addresses that may serve it: `host:port`, or a host for all of its ports. null: all engines may. */
  readonly subset: ReadonlySet<string> | null
  /** Maximum of `DeliveredRequest.fallbacks`. */
  readonly maxFallbacks: number
  /** The body of the response passes through the gateway, so it can be read. */
  readonly readsAnswer: boolean
  /** The response can be changed. */
  readonly changesAnswer: boolean
}
