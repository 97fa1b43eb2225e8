import type { Clock } from './clock.ts'
import type { Driver } from './driver.ts'
import { badRequest } from './http-api/wire-error.ts'
import {
  type Fields,
  type FinishedPrefill,
  type Handoff,
  type KvConnector,
  type KvLeg,
  NO_TRANSFER,
  noViolations,
  type PullSource,
} from './kv-connector.ts'
import type { KvNetwork } from './kv-network.ts'

/** Number of remembered prefills. Their blocks are released long before they are forgotten. */
const MAX_HANDOFFS = 10_000

const REMOTE_KEYS = ['remote_engine_id', 'remote_block_ids', 'remote_host', 'remote_port'] as const

/** One engine's side of vLLM's NixlConnector in pull mode. */
export class KvPeer implements KvConnector, PullSource {
  readonly engineId: string
  readonly violations = noViolations()
  /** Reads of blocks that were gone: `vllm:nixl_num_notifications_after_expiry_total`. */
  lateReads = 0
  prefillLegs = 0
  decodeLegs = 0
  readonly #network: KvNetwork
  readonly #driver: Driver
  readonly #clock: Clock
  readonly #port: number
  readonly #handoffs = new Map<string, Handoff>()
  #published = 0

  constructor(options: { engineId: string; network: KvNetwork; driver: Driver; clock: Clock; port: number }) {
    this.engineId = options.engineId
    this.#network = options.network
    this.#driver = options.driver
    this.#clock = options.clock
    this.#port = options.port
    this.#network.join(this)
  }

  /** Reads `kv_transfer_params` of a request. Throws a WireError if a prefill leg violates the protocol. */
  legOf(body: Fields, { length: promptTokens }: Uint32Array): KvLeg {
    const params = body['kv_transfer_params']
    if (typeof params !== 'object' || params === null || Array.isArray(params)) return NO_TRANSFER
    const fields = params as Fields
    if (fields['do_remote_decode'] === true) {
      this.#checkPrefill(body, fields)
      this.prefillLegs += 1
      return { kind: 'prefill', hold: true }
    }
    if (fields['do_remote_prefill'] !== true) return NO_TRANSFER
    if (REMOTE_KEYS.some((key) => fields[key] === undefined || fields[key] === null)) {
      this.violations.fatal += 1
      return { kind: 'fatal' }
    }
    this.decodeLegs += 1
    return this.#decodeLeg(fields, promptTokens)
  }

  /** Holds the blocks of a finished prefill and returns their location. */
  publish({ requestId, sequence }: FinishedPrefill): Fields {
    this.#published += 1
    const remoteId = `${requestId}-${this.#published.toString(16).padStart(8, '0')}`
    this.#handoffs.set(remoteId, { sequence, read: false })
    if (this.#handoffs.size > MAX_HANDOFFS) this.#handoffs.delete(this.#handoffs.keys().next().value!)
    const blocks = sequence.table.subarray(
      0,
      Math.ceil(sequence.spec.promptTokens / this.#driver.model.limits.blockTokens),
    )
    return {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_block_ids: [Array.from(blocks, (block) => block + 1)],
      remote_engine_id: this.engineId,
      remote_request_id: remoteId,
      remote_host: '127.0.0.1',
      remote_port: this.#port,
      tp_size: 1,
      dcp_size: 1,
      pp_size: 1,
      remote_num_tokens: sequence.spec.promptTokens,
      remote_blocks_expiry_time: null,
      transfer_mode: 'pull',
      remote_prefill_cached_tokens: Math.max(0, sequence.cachedTokens),
    }
  }

  handoffOf(remoteId: string): Handoff | undefined {
    return this.#handoffs.get(remoteId)
  }

  finishRead(handoff: Handoff): void {
    if (this.#driver.model.readByRemote(handoff.sequence, this.#clock.now())) this.#driver.arm()
    else this.lateReads += 1
  }

  /** The process ended. Its held blocks can no longer be read. */
  leave(): void {
    this.#network.leave(this)
    this.#handoffs.clear()
  }

  #checkPrefill(body: Fields, fields: Fields): void {
    const limit = body['max_output_tokens'] ?? body['max_completion_tokens'] ?? body['max_tokens']
    const fault =
      body['stream'] === true
        ? 'a prefill leg must not stream: its answer would carry no kv_transfer_params'
        : limit !== 1
          ? `a prefill leg generates one token: max_tokens must be 1, got ${JSON.stringify(limit ?? null)}`
          : (body['n'] ?? 1) !== 1
            ? 'a prefill leg has one choice: n must be 1'
            : fields['do_remote_prefill'] === true
              ? 'do_remote_prefill and do_remote_decode exclude each other'
              : REMOTE_KEYS.some((key) => fields[key] !== undefined && fields[key] !== null)
                ? 'a prefill leg names no remote: remote_* must be null'
                : null
    if (fault === null) return
    this.violations.badPrefill += 1
    throw badRequest(fault, 'kv_transfer_params')
  }

  #decodeLeg(fields: Fields, promptTokens: number): KvLeg {
    const peer = this.#network.find(fields['remote_engine_id'])
    if (peer === undefined) {
      this.violations.unknownEngine += 1
      return { kind: 'unreachable' }
    }
    const handoff = peer.handoffOf(String(fields['remote_request_id']))
    if (handoff === undefined) this.violations.unknownPrefill += 1
    else if (handoff.sequence.spec.promptTokens !== promptTokens) this.violations.mismatch += 1
    else if (handoff.read) {
      // Observed on a real server: the blocks are freed, but their content is still there.
      this.violations.reused += 1
      peer.lateReads += 1
      return { kind: 'decode', done: () => undefined }
    } else if (!handoff.sequence.holding) {
      this.violations.expired += 1
      peer.lateReads += 1
    } else {
      handoff.read = true
      return { kind: 'decode', done: () => peer.finishRead(handoff) }
    }
    // Nothing to read: compute the prompt here.
    return NO_TRANSFER
  }
}
