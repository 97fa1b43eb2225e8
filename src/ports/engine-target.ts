import type { RankSpec } from '../core/contract/pool-config.ts'
import type { EngineTypeName } from '../engines/engine-type.ts'

/** Files of an engine's TLS connections, PEM. null: none. */
export interface EngineTls {
  /** Authorities that the engine's certificate is checked with. null: those Node trusts. */
  readonly ca: string | null
  /** The gateway's certificate and its key (mTLS). */
  readonly cert: string | null
  readonly key: string | null
}

/** Address to which requests are sent, of an engine or of a service beside it. Never sent to clients. */
export interface OriginTarget {
  readonly id: string
  /** Base URL without a trailing slash. */
  readonly url: string
  /** Headers of every request: its key, access tokens. Flat name, value; lower-case names. */
  readonly headers: readonly string[]
  /** Workers: name of a binding to fetch through, for private networks. */
  readonly binding: string | null
  /** Node: certificates of its connections. Absent: those of Node. */
  readonly tls?: EngineTls
}

/** Address of an engine of a pool. */
interface PoolTarget extends OriginTarget {
  /** Name of the pool's base model. Absent: unknown. */
  readonly model?: string
}

/** Traits of a model server and of its ranks. */
interface ServerTraits extends PoolTarget {
  /** Configured type. Absent: detected. */
  readonly type?: EngineTypeName
  /** The pool has adapters, so probes read which ones the engine has loaded. Absent: it has none. */
  readonly hasAdapters?: boolean
  /** Clients may request the adapters that it reports, so they are read more often. Absent: no. */
  readonly reportsAdapters?: boolean
}

/** A model server. */
export interface ServerTarget extends ServerTraits {
  readonly kind: 'server'
  /** Its data-parallel ranks are engines of their own. Absent: it is one engine. */
  readonly ranks?: RankSpec
}

/** A data-parallel rank of a server, at the same address: a header chooses it. */
interface RankTarget extends ServerTraits {
  readonly kind: 'rank'
  readonly server: ServerTarget
}

/** Another Firstlight gateway, which chooses among its engines. */
interface GatewayTarget extends PoolTarget {
  readonly kind: 'gateway'
}

/** A provider, which is not probed. */
interface ProviderTarget extends PoolTarget {
  readonly kind: 'provider'
  /** The provider's name of the model. */
  readonly providerModel: string
}

export type EngineTarget = ServerTarget | RankTarget | GatewayTarget | ProviderTarget

/** Whether it is a model server or a rank of one: no other gateway, and no provider, which bills each request. */
export const isOwnEngine = (target: EngineTarget): target is ServerTarget | RankTarget =>
  target.kind === 'server' || target.kind === 'rank'
