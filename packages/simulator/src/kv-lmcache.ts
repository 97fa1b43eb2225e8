import { badRequest } from './http-api/wire-error.ts'
import {
  type Fields,
  type FinishedPrefill,
  type KvConnector,
  type KvLeg,
  NO_TRANSFER,
  noViolations,
  type PushTarget,
} from './kv-connector.ts'
import type { KvNetwork } from './kv-network.ts'

/** Address that prefill engines push to, as in LMCache's `disagg_spec`. */
export interface Receiver {
  readonly host: string
  readonly initPorts: readonly number[]
  readonly allocPorts: readonly number[]
}

const MAX_PUSHED = 1000

/**
 * One engine's side of LMCache's prefill/decode protocol: the prefill engine pushes its KV cache to the decode engine
 * that the request names.
 */
export class LmcachePeer implements KvConnector, PushTarget {
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

  publish({ body, prompt, firstToken }: FinishedPrefill): Fields {
    const spec = (body['kv_transfer_params'] as Fields)['disagg_spec'] as Fields
    const peer = this.#network.receivers.get(keyOf(spec['receiver_host'], spec['receiver_init_port']))
    if (peer === undefined) this.violations.unknownEngine += 1
    else peer.receive(`${prompt.join()},${firstToken}`)
    return { first_tok: firstToken }
  }

  receive(prompt: string): void {
    this.#pushed.add(prompt)
    if (this.#pushed.size > MAX_PUSHED) this.#pushed.delete(this.#pushed.values().next().value!)
  }

  leave(): void {
    this.#pushed.clear()
    if (this.#receiver !== null) this.#network.receivers.delete(keyOf(this.#receiver.host, this.#receiver.initPorts))
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
              ? 'the prompt of a prefill leg must be token ids'
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
