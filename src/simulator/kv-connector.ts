import type { Sequence } from './sequence.ts'
import type { KvNetwork } from './kv-peer.ts'
import { badRequest } from './http-api/wire-error.ts'

export type Fields = Readonly<Record<string, unknown>>

/** Violations of the prefill/decode protocol that an engine observed. */
export interface KvViolations {
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
export interface Prefilled {
  /** Id of the answer, which is the request's id among engines. */
  readonly requestId: string
  readonly sequence: Sequence
  readonly prompt: Uint32Array
  readonly firstToken: number
  readonly body: Fields
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
  publish(prefilled: Prefilled): Fields | null
  /** The process ended. Its held blocks can no longer be read. */
  leave(): void
}

export interface ResponsePrefill {
  readonly promptTokens: number
}

const FIELD = 'disagg_prefill_resp'
const MOST_REMEMBERED = 10_000

/** A connector that finds a prefill by the prefill's whole answer, which the decode leg contains. */
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
    if (typeof carried !== 'object' || carried === null) return NO_TRANSFER
    const id = String(carried['id'])
    const prefill = this.#network.responses.get(id)
    if (prefill === undefined) this.violations.unknownPrefill += 1
    else if (prefill.promptTokens !== prompt.length) this.violations.mismatch += 1
    else {
      this.#network.responses.delete(id)
      this.decodeLegs += 1
      return { kind: 'decode', done: () => undefined }
    }
    return NO_TRANSFER
  }

  publish({ requestId, prompt }: Prefilled): null {
    const { responses } = this.#network
    responses.set(requestId, { promptTokens: prompt.length })
    if (responses.size > MOST_REMEMBERED) responses.delete(responses.keys().next().value!)
    return null
  }

  leave(): void {}
}

/** Address that prefill engines push to, as in LMCache's `disagg_spec`. */
export interface Receiver {
  readonly host: string
  readonly initPorts: readonly number[]
  readonly allocPorts: readonly number[]
}

const MOST_PUSHED = 1000

/**
 * One engine's side of LMCache's prefill/decode protocol: the prefill engine pushes its KV cache to the decode engine
 * that the request names.
 */
export class LmcachePeer implements KvConnector {
  readonly violations = noViolations()
  readonly lateReads = 0
  prefillLegs = 0
  decodeLegs = 0
  readonly #network: KvNetwork
  readonly #receiver: Receiver | null
  /** Prompts with their first token that were pushed here, by ids. */
  readonly #pushed = new Set<string>()

  constructor(network: KvNetwork, receiver: Receiver | null) {
    this.#network = network
    this.#receiver = receiver
    if (receiver !== null) network.receivers.set(keyOf(receiver.host, receiver.initPorts), this)
  }

  legOf(body: Fields, prompt: Uint32Array): KvLeg {
    const params = body['kv_transfer_params'] as Fields | null | undefined
    if (typeof params === 'object' && params !== null && params['disagg_spec'] !== undefined) {
      this.#checkPrefill(body, params)
      this.prefillLegs += 1
      return { kind: 'prefill', hold: false }
    }
    if (!this.#pushed.delete(prompt.join())) return NO_TRANSFER
    this.decodeLegs += 1
    return { kind: 'decode', done: () => undefined }
  }

  publish({ body, prompt, firstToken }: Prefilled): Fields {
    const spec = (body['kv_transfer_params'] as Fields)['disagg_spec'] as Fields
    const peer = this.#network.receivers.get(keyOf(spec['receiver_host'], spec['receiver_init_port']))
    if (peer === undefined) this.violations.unknownEngine += 1
    else peer.#receive(`${prompt.join()},${firstToken}`)
    return { first_tok: firstToken }
  }

  leave(): void {
    this.#pushed.clear()
    if (this.#receiver !== null) this.#network.receivers.delete(keyOf(this.#receiver.host, this.#receiver.initPorts))
  }

  #receive(prompt: string): void {
    this.#pushed.add(prompt)
    if (this.#pushed.size > MOST_PUSHED) this.#pushed.delete(this.#pushed.values().next().value!)
  }

  #checkPrefill(body: Fields, params: Fields): void {
    const spec = params['disagg_spec'] as Fields
    const ports = [spec['receiver_init_port'], spec['receiver_alloc_port']]
    const fault =
      body['stream'] === true
        ? 'a prefill leg must not stream'
        : body['max_tokens'] !== 1
          ? `a prefill leg generates one token: max_tokens must be 1, got ${JSON.stringify(body['max_tokens'] ?? null)}`
          : params['ret_first_tok'] !== true
            ? 'ret_first_tok must be true'
            : !Array.isArray(body['prompt']) || body['prompt'].some((id) => typeof id !== 'number')
              ? 'a prefill leg gives its prompt as ids'
              : typeof spec['req_id'] !== 'string' ||
                  typeof spec['receiver_host'] !== 'string' ||
                  !ports.every(Array.isArray)
                ? 'disagg_spec needs req_id, receiver_host, receiver_init_port and receiver_alloc_port'
                : null
    if (fault === null) return
    this.violations.badPrefill += 1
    throw badRequest(fault, 'kv_transfer_params')
  }
}

const keyOf = (host: unknown, ports: unknown): string => `${String(host)}:${String(ports)}`
