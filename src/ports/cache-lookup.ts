import type { CacheHint } from '../core/contract/admission.ts'
import type { Deadline } from './deadline.ts'

/** Lookup in caches outside the engines (LMCache). */
export interface CacheLookup {
  /** Engine → cached tokens, one entry per tier that adds some. null: no result in time. Never rejects. */
  find(query: CacheLookupQuery): Promise<ReadonlyMap<string, readonly CacheMatch[]> | null>
}

export interface CacheLookupQuery {
  readonly tokens: Uint32Array
  /** `cache_salt` for the engine; null: none. */
  readonly salt: string | null
  readonly deadline: Deadline
  /** Keeps work alive that is not awaited. */
  background(work: Promise<unknown>): void
}

export type CacheMatch = Omit<CacheHint, 'engine'>
