import {
  type Fields,
  type FinishedPrefill,
  type KvConnector,
  type KvLeg,
  NO_TRANSFER,
  noViolations,
} from './kv-connector.ts'
import type { KvNetwork } from './kv-network.ts'

const FIELD = 'disagg_prefill_resp'

const MAX_PREFILLS = 10_000

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

  publish({ requestId, prompt }: FinishedPrefill): null {
    const { responses } = this.#network
    responses.set(requestId, { promptTokens: prompt.length })
    if (responses.size > MAX_PREFILLS) responses.delete(responses.keys().next().value!)
    return null
  }

  leave(): void {}
}
