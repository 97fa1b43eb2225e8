/** Calls of LMCache servers to a registry and its replies, as plain data for RPC. Names are keys already. */

/** Instance as it registered; the field names are LMCache's. */
export interface RegisteredInstance {
  readonly id: string
  readonly ip: string
  readonly httpPort: number
  readonly metadata: Readonly<Record<string, string>>
  readonly p2pUrl: string
  readonly mqPort: number
}

export interface ChunkKeys {
  /** Two lanes per chunk: [lo0, hi0, …]. */
  readonly keys: Uint32Array
  /** Rank of each key's part. */
  readonly ranks: Uint8Array
}

/** One batch of a server's events, in order. */
export interface CacheEvents extends ChunkKeys {
  readonly instance: string
  /** Start of the server: a higher one means that its memory is empty. */
  readonly incarnation: number
  /** Counts batches from 1 within an incarnation. */
  readonly seq: number
  readonly kind: 'store' | 'delete' | 'access' | 'config'
  readonly level: 'l1' | 'l2'
  readonly backend: string
  readonly shared: boolean
  /** Ranks of the engines that store this model. 0: unknown. */
  readonly worldSize: number
}

export type RegistryCall =
  /** `engines`: those at the instance's address, for engines whose configuration names no instance. */
  | { readonly kind: 'register'; readonly instance: RegisteredInstance; readonly engines: readonly string[] }
  | { readonly kind: 'heartbeat'; readonly id: string }
  | { readonly kind: 'leave'; readonly id: string }
  | { readonly kind: 'list' }
  | { readonly kind: 'events'; readonly batches: readonly CacheEvents[] }
  | { readonly kind: 'lookup'; readonly keys: ChunkKeys }

export interface RegistryPlacement {
  readonly instance: string
  readonly incarnation: number
  readonly level: 'l1' | 'l2'
  readonly backend: string
  readonly shared: boolean
}

export type RegistryAnswer =
  | { readonly kind: 'register'; readonly again: boolean }
  /** false: it must register (again). */
  | { readonly kind: 'heartbeat'; readonly known: boolean }
  | { readonly kind: 'leave' }
  | {
      readonly kind: 'list'
      readonly instances: readonly (RegisteredInstance & { readonly registeredAt: number })[]
      readonly keys: number
    }
  | { readonly kind: 'events'; readonly applied: number; readonly duplicates: number; readonly stale: number }
  | { readonly kind: 'lookup'; readonly rows: readonly (readonly RegistryPlacement[])[] }
