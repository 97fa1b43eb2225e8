import type { Sequence } from './sequence.ts'

export type Fields = Readonly<Record<string, unknown>>

/** Breaches of the prefill/decode protocol that an engine saw. */
export interface KvViolations {
  /** A prefill leg that streams, asks for more than one token, or names a remote. */
  badPrefill: number
  /** A leg that names an engine nobody knows. */
  unknownEngine: number
  /** … a prefill that never happened there. */
  unknownPrefill: number
  /** … a prefill whose blocks were given up before. */
  expired: number
  /** … a prefill that another decode leg has read. */
  reused: number
  /** … a prefill of another prompt. */
  mismatch: number
  /** A decode leg without the fields that name a prefill: kills a NIXL engine. */
  fatal: number
}

export const noViolations = (): KvViolations => ({ badPrefill: 0, unknownEngine: 0, unknownPrefill: 0, expired: 0, reused: 0, mismatch: 0, fatal: 0 })

/** What a request does between two engines. */
export type KvLeg =
  | { readonly kind: 'whole' }
  /** `hold`: its blocks wait to be fetched. */
  | { readonly kind: 'prefill'; readonly hold: boolean }
  /** Blocks come from elsewhere; `done` is called when they have been read, or never will be. */
  | { readonly kind: 'decode'; readonly done: () => void }
  /** The engine named does not answer. */
  | { readonly kind: 'unreachable' }
  /** The engine process dies of it. */
  | { readonly kind: 'fatal' }

export const WHOLE: KvLeg = { kind: 'whole' }

/** The answer of a prefill leg. */
export interface Prefilled {
  /** Of the answer; what the engine calls the request among engines. */
  readonly requestId: string
  readonly sequence: Sequence
  readonly prompt: Uint32Array
  readonly firstToken: number
  readonly body: Fields
}

/** One engine's side of a protocol that moves KV caches between engines. */
export interface KvConnector {
  readonly violations: KvViolations
  readonly lateReads: number
  readonly prefillLegs: number
  readonly decodeLegs: number
  /** Throws a WireError where a leg breaks the rules. */
  legOf(body: Fields, prompt: Uint32Array): KvLeg
  /** Hands over a finished prefill; what its answer says in `kv_transfer_params`. */
  publish(prefilled: Prefilled): Fields | null
  /** The process ended: what it held cannot be read any more. */
  leave(): void
}
