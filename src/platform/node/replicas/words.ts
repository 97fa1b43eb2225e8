/** What a replica says of its bookings to those who read its log: a line of JSON, a list of words, for each turn of its loop. */
import type { Holding, PoolName } from '../../../ports.ts'
import type { Admission, EngineSignal, Placement, Resume } from '../../../core/cluster/contract.ts'
import type { Notice } from '../../../core/cluster/notice.ts'
import type { CacheEvents, RegistryCall } from '../../../core/lmcache/registry-call.ts'
import { readAdmission } from '../../../core/cluster/payload.ts'

/** Raise it when older readers would take words for what they are not. */
export const WIRE_VERSION = 1

/** How a booking has come along that was made before its reader joined. */
export type Course = Pick<Resume, 'firstTokenSeen' | 'legsDone' | 'outputBlocks'>

export const JUST_MADE: Course = { firstTokenSeen: false, outputBlocks: 0 }

export type Word =
  | readonly [said: 'hello', hello: { readonly wire: number; readonly id: string; readonly version: string }]
  | readonly [said: 'book', pool: PoolName, blockTokens: number, asked: SentAdmission, placement: Placement, course?: Course]
  | Notice
  /** `at`: of two that an operator said of one engine the later holds. */
  | readonly [said: 'signal', pool: PoolName, signal: EngineSignal, at: number]
  /** What an LMCache server told this one's registry. */
  | readonly [said: 'registry', pool: PoolName, call: SentCall]
  | readonly [said: 'held', id: string, holding: Holding]
  | readonly [said: 'forgotten', id: string]
  /** All that lives was told: what was known before and not told again has ended. */
  | readonly [said: 'all']
  /** It ends in order, and its bookings with it. */
  | readonly [said: 'bye']

/** As much of an admission as books are kept of: neither who asked nor what was said. */
export type SentAdmission = Omit<Admission, 'blocks' | 'tenant' | 'session' | 'overrides' | 'unsplittable' | 'avoid' | 'chunks'> & {
  /** Base64 of little-endian 32-bit lanes, two a block. */
  readonly blocks: string
}

/** Questions are answered by whoever is asked. */
export type Told = Exclude<RegistryCall, { readonly kind: 'list' | 'lookup' }>
type Events = Extract<RegistryCall, { readonly kind: 'events' }>
export type SentCall = Exclude<Told, Events> | { readonly kind: 'events'; readonly batches: readonly (Omit<CacheEvents, 'keys' | 'ranks'> & { readonly keys: string; readonly ranks: string })[] }

export function sentCall(call: Told): SentCall {
  return call.kind === 'events' ? { ...call, batches: call.batches.map((batch) => ({ ...batch, keys: base64(batch.keys), ranks: base64(batch.ranks) })) } : call
}

export function receivedCall(call: SentCall): Told {
  return call.kind === 'events' ? { ...call, batches: call.batches.map((batch) => ({ ...batch, keys: lanes(batch.keys), ranks: Uint8Array.from(Buffer.from(batch.ranks, 'base64')) })) } : call
}

const base64 = ({ buffer, byteOffset, byteLength }: Uint32Array | Uint8Array): string => Buffer.from(buffer, byteOffset, byteLength).toString('base64')

/** Copied: what Node makes of base64 may begin at any byte. */
function lanes(text: string): Uint32Array {
  const bytes = Uint8Array.from(Buffer.from(text, 'base64'))
  return new Uint32Array(bytes.buffer, 0, (bytes.length >> 3) * 2)
}

export function sent({ blocks, tenant: _tenant, session: _session, overrides: _overrides, unsplittable: _unsplittable, avoid: _avoid, chunks: _chunks, ...kept }: Admission): SentAdmission {
  return { ...kept, blocks: base64(blocks) }
}

export function received({ blocks, ...kept }: SentAdmission): Admission {
  return readAdmission({ ...kept, blocks: lanes(blocks) })
}
