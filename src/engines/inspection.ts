/** What `firstlight doctor` reads of a server, and the settings that it recommends. */
import type { KvEventSource } from './kv-event-source.ts'

/** Flags of a server that is in its development mode. null: not reported. */
export interface ServerInfo {
  readonly maxQueuedRequests: number | null
  readonly maxQueuedTokens: number | null
  readonly sleepMode: boolean | null
  readonly transfer: { readonly connector: string; readonly role: string | null } | null
  /** Endpoint of its KV events; null: started without events. */
  readonly events: KvEventSource | null
}

/** Settings in the words of the server's command line. */
interface Recommendations {
  readonly load: string
  readonly cachedTokens: string
  readonly requestMetrics: string
  readonly requestIds: string
  readonly kvEvents: string
  readonly queueLimits: string
  readonly kvTransfer: (role: string) => string
}

export interface Inspection {
  /** Name before the version. */
  readonly server: string
  /** Finding about a server that answers none of the type's own routes. */
  readonly unlike: string
  readonly metrics: {
    /** Labels: configuration of the cache. */
    readonly cacheConfig: string
    /** Requests refused by admission limits. */
    readonly rejections: string
    /** First part of the names of a KV connector's metrics, and its name. */
    readonly connectors: readonly (readonly [prefix: string, name: string])[]
  }
  readonly info: { readonly path: string; readonly read: (json: unknown) => ServerInfo | null }
  readonly next: Recommendations
}
