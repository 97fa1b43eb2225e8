import type { Sequence } from './sequence.ts'
import type { KvNetwork } from './kv-peer.ts'

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

export const noViolations = (): KvViolations => ({
  badPrefill: 0,
  unknownEngine: 0,
  unknownPrefill: 0,
  expired: 0,
  reused: 0,
  mismatch: 0,
  fatal: 0,
})

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

export interface ResponsePrefill {
  readonly promptTokens: number
}

const FIELD = 'disagg_prefill_resp'
const MOST_REMEMBERED = 10_000

/** An engine whose own connector finds a prefill by the prefill's whole answer, which the decode leg carries. */
export class ResponsePeer implements KvConnector {
  readonly violations = noViolations()
  readonly lateReads = 0
  prefillLegs = 0
  decodeLegs = 0
  readonly #network: KvNetwork
  readonly #prefills: boolean

  constructor(network: KvNetwork, prefills: boolean) {
    this.#network = network
    this.#prefills = prefills
  }

  legOf(body: Fields, prompt: Uint32Array): KvLeg {
    if (this.#prefills) {
      const limit = body['max_output_tokens'] ?? body['max_completion_tokens'] ?? body['max_tokens']
      if (body['stream'] === true || limit !== 1) this.violations.badPrefill += 1
      this.prefillLegs += 1
      return { kind: 'prefill', hold: false }
    }
    const carried = body[FIELD] as Fields | null | undefined
    if (typeof carried !== 'object' || carried === null) return WHOLE
    const id = String(carried['id'])
    const prefill = this.#network.responses.get(id)
    if (prefill === undefined) this.violations.unknownPrefill += 1
    else if (prefill.promptTokens !== prompt.length) this.violations.mismatch += 1
    else {
      this.#network.responses.delete(id)
      this.decodeLegs += 1
      return { kind: 'decode', done: () => undefined }
    }
    return WHOLE
  }

  publish({ requestId, prompt }: Prefilled): null {
    const { responses } = this.#network
    responses.set(requestId, { promptTokens: prompt.length })
    if (responses.size > MOST_REMEMBERED) responses.delete(responses.keys().next().value!)
    return null
  }

  leave(): void {}
}
