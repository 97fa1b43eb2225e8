import type { RankSpec } from '../core/contract/pool-config.ts'
import type { EngineKind } from '../engines/engine-type.ts'

/** Files of an engine's TLS connections, PEM. null: none. */
export interface EngineTls {
  /** Authorities that the engine's certificate is checked with. null: those Node trusts. */
  readonly ca: string | null
  /** The gateway's certificate and its key (mTLS). */
  readonly cert: string | null
  readonly key: string | null
}

/** Address of an engine and headers for it. Never sent to clients. */
export interface EngineTarget {
  readonly id: string
  /** Base URL without a trailing slash. */
  readonly url: string
  /** Headers of every request: the engine's key, access tokens. Flat name, value; lower-case names. */
  readonly headers: readonly string[]
  /** Workers: name of a binding to fetch through, for private networks. */
  readonly binding: string | null
  /** Node: certificates of its connections. Absent: those of Node. */
  readonly tls?: EngineTls
  /** Name of the pool's base model. Absent: unknown. */
  readonly model?: string
  /** The pool has adapters, so probes read which ones the engine has loaded. Absent: it has none. */
  readonly hasAdapters?: boolean
  /** Clients may request the adapters that it reports, so they are read more often. Absent: no. */
  readonly reportsAdapters?: boolean
  /** Configured type. Absent: detected. */
  readonly type?: EngineKind
  /** Its data-parallel ranks are engines of their own. Absent: it is one engine. */
  readonly ranks?: RankSpec
  /** The server of which the target is a rank. Absent: it has an address of its own. */
  readonly server?: EngineTarget
  /** The target is another Firstlight gateway. */
  readonly isGateway?: boolean
  /** The target is a provider, which has the model under this name and is not probed. */
  readonly external?: { readonly model: string }
}
