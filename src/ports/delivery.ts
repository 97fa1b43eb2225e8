/** What a proxy can do that moves the bytes of a request itself, and asks the gateway for an engine only. */
export interface Delivery {
  /** Addresses that may serve it: `host:port`, or a host for all of its ports. null: all engines may. */
  readonly subset: ReadonlySet<string> | null
  /** Maximum of `DeliveredRequest.fallbacks`. */
  readonly maxFallbacks: number
  /** The body of the response passes through the gateway, so it can be read. */
  readonly readsAnswer: boolean
  /** The response can be changed. */
  readonly changesAnswer: boolean
}
