/**
 * Types of the validated configuration. They are inferred from the schema (config/schema.ts and the files it imports),
 * which documents every key: names are camelCase, absent keys are null, secrets are resolved. `parseConfig`
 * (config/parse.ts) makes a `Config`.
 */
import type * as z from 'zod/mini'
import type { documentSchema } from './config/schema.ts'
import type { SecretRef } from './config/secret-fields.ts'
import type { SplitMode, SplitRoles } from './core/contract/pool-config.ts'

/** Type after the secrets were read from the environment. */
type WithSecrets<Value> = Value extends SecretRef
  ? string
  : Value extends readonly (infer Item)[]
    ? readonly WithSecrets<Item>[]
    : Value extends object
      ? { readonly [Key in keyof Value]: WithSecrets<Value[Key]> }
      : Value

/** Document before the defaults that depend on the runtime or on other keys are filled in. */
export type ConfigDocument = WithSecrets<z.output<typeof documentSchema>>

export type ClusterDocument = ConfigDocument['clusters'][number]

export type PoolDocument = NonNullable<ClusterDocument['pools']>[number]

/** `Base` with some keys redefined. */
type Redefine<Base, Keys> = Omit<Base, keyof Keys> & Keys

export type Config = Redefine<
  ConfigDocument,
  {
    readonly version: number
    readonly keys: readonly KeyConfig[] | null
    readonly limits: LimitsConfig
    readonly clusters: readonly ClusterConfig[]
    /** This process listens itself, and only this machine can reach it. false on Workers. */
    readonly loopback: boolean
    /** Value that this deployment appends to the header `via`. */
    readonly via: string
    /** Absent: there are no InferencePools, and all pods are listed. */
    readonly discovered?: DiscoveredResources
  }
>

/** What discovery read besides engines. */
export interface DiscoveredResources {
  /** Priority of each InferenceObjective of the configured pools. */
  readonly objectives: Readonly<Record<string, number>>
  /** Number of resources whose newest version is malformed and not used. */
  readonly malformed: number
  /** false: an API server has not listed the pods yet. Absent: true. */
  readonly isListed?: boolean
}

export type LimitsConfig = Redefine<ConfigDocument['limits'], { readonly bufferedBytes: number }>

export type ClusterConfig = Redefine<
  ClusterDocument,
  /** Behind a gateway: one pool per model of the gateway, with the gateway as its only engine. */
  { readonly pools: readonly PoolSettings[] }
>

/** Another Firstlight that has the engines of a cluster. */
export type RegionalGateway = NonNullable<ClusterDocument['gateway']>

/** Pool as configured. `PoolConfig` (core/contract) is the part that its PoolState gets. */
export type PoolSettings = Redefine<
  PoolDocument,
  {
    readonly observeShare: number
    readonly split: SplitSettings
    readonly session: SessionSettings
    /** Names. */
    readonly adapters: readonly string[]
    /** Clients may also request the adapters that engines report. */
    readonly reportsAdapters: boolean
    /** null: engines load no adapters on demand. */
    readonly adapterLoading: AdapterLoadingSettings | null
  }
>

/** How engines load adapters on demand. */
export interface AdapterLoadingSettings {
  /** Folder or repository of each adapter that may be loaded. */
  readonly sources: Readonly<Record<string, string>>
  readonly maxPerEngine: number
  readonly loadMs: number
}

type SessionSettings = Redefine<
  PoolDocument['session'],
  { readonly header: readonly string[]; readonly body: readonly string[] }
>

type SplitSettings = Redefine<
  PoolDocument['split'],
  {
    readonly mode: SplitMode
    readonly lmcache: LmcacheSplit
    /** Set by discovery. Absent: the engines of the pool are all listed. */
    readonly roles?: SplitRoles
  }
>

type LmcacheSplit = PoolDocument['split']['lmcache'] & {
  /** Receivers by the decode engine's id, from `decoders` or `decoder`. */
  readonly receivers: Readonly<Record<string, LmcacheReceiver>>
}

/** Where prefill engines push a KV cache; ports in the order of the tensor-parallel ranks. */
export type LmcacheReceiver = NonNullable<PoolDocument['split']['lmcache']['decoder']>

export type EngineConfig = PoolDocument['engines'][number]

export type LmcacheConfig = NonNullable<PoolDocument['lmcache']>

export type KeyDocument = NonNullable<ConfigDocument['keys']>[number]

/** A key as configured, with one form for one secret and for several. */
export type KeyConfig = Omit<KeyDocument, 'secret' | 'expires' | 'secrets'> & {
  /** At least one. */
  readonly secrets: readonly KeySecret[]
}

/** `from`, `expires`: first time at which it is accepted and rejected, as written; null: no limit. */
export type KeySecret = NonNullable<KeyDocument['secrets']>[number]

export type TlsConfig = NonNullable<ConfigDocument['tls']>

export type EppConfig = NonNullable<ConfigDocument['epp']>

export type KedaConfig = NonNullable<ConfigDocument['keda']>

export type CorsConfig = NonNullable<ConfigDocument['cors']>

export type LogConfig = ConfigDocument['log']

export type RecordConfig = NonNullable<ConfigDocument['record']>

export type ReplicasConfig = NonNullable<ConfigDocument['replicas']>

export type TracesConfig = ConfigDocument['traces']

export type TtftConfig = ConfigDocument['ttft']
