import type { Sequence } from './sequence.ts'

export type Fields = Readonly<Record<string, unknown>>

/** Violations of the prefill/decode protocol that an engine observed. */
interface KvViolations {
  /** A prefill leg that streams, requests more than one token, or names a remote. */
  badPrefill: number
  /** A leg that names an unknown engine. */
  unknownEngine: number
  /** A leg that names a prefill that did not happen. */
  unknownPrefill: number
  /** A leg that names a prefill whose blocks were released. */
  expired: number
  /** A leg that names a prefill that another decode leg has read. */
  reused: number
  /** A leg that names a prefill of another prompt. */
  mismatch: number
  /** A decode leg without the fields that name a prefill. It crashes a NIXL engine. */
  fatal: number
}

export const noViolations = (): KvViolations => ({
  badPrefill: 0,
  unknownEngine: 0,
  unknownPrefill: 0,
  expired: 0,
  reused: 0,
  mismatch: 0,
  fatal: 0,
})

/** Role of a request in a KV transfer. */
export type KvLeg =
  | { readonly kind: 'whole' }
  /** `hold`: its blocks are kept until fetched. */
  | { readonly kind: 'prefill'; readonly hold: boolean }
  /** Blocks come from another engine. `done` is called when they were read or will never be. */
  | { readonly kind: 'decode'; readonly done: () => void }
  /** The named engine does not answer. */
  | { readonly kind: 'unreachable' }
  /** The engine process crashes. */
  | { readonly kind: 'fatal' }

export const NO_TRANSFER: KvLeg = { kind: 'whole' }

/** Answer of a prefill leg. */
export interface FinishedPrefill {
  /** Id of the answer, which is the request's id among engines. */
  readonly requestId: string
  readonly sequence: Sequence
  readonly prompt: Uint32Array
  readonly firstToken: number
  readonly body: Fields
}

/** Prefill whose blocks another engine may read. */
export interface Handoff {
  readonly sequence: Sequence
  read: boolean
}

/** Engine whose blocks others pull. */
export interface PullSource {
  readonly engineId: string
  /** Reads of blocks that were gone. */
  lateReads: number
  handoffOf(remoteId: string): Handoff | undefined
  finishRead(handoff: Handoff): void
}

/** Engine to which others push prompts with their first token, by ids. */
export interface PushTarget {
  receive(prompt: string): void
}

/** One engine's side of a KV transfer protocol. */
export interface KvConnector {
  readonly violations: KvViolations
  readonly lateReads: number
  readonly prefillLegs: number
  readonly decodeLegs: number
  /** Classifies a request. Throws a WireError if it violates the protocol. */
  legOf(body: Fields, prompt: Uint32Array): KvLeg
  /** Publishes a finished prefill. Returns `kv_transfer_params` of its answer. */
  publish(prefilled: FinishedPrefill): Fields | null
  /** The process ended. Its held blocks can no longer be read. */
  leave(): void
}
