import type { Driver, Clock } from '../driver.ts'
import type { EngineSettings } from '../engine-options.ts'
import type { KvConnector } from '../kv-connector.ts'
import type { ReportSink } from '../ttft-reporter.ts'
import type { ServingMetrics } from './metrics-text.ts'
import type { Body } from './sampling.ts'

/** `system_fingerprint` of every answer. */
export const FINGERPRINT = 'vllm-0.32.0-simulated'

/** The parts of the engine process that the endpoints need. */
export interface Serving {
  readonly settings: EngineSettings
  readonly driver: Driver
  readonly clock: Clock
  readonly metrics: ServingMetrics
  /** Prefill/decode KV transfer; null: no connector, `kv_transfer_params` is ignored. */
  readonly kv: KvConnector | null
  /** Destination of the stage reports before a first token; null: none. */
  readonly report: ReportSink | null
  /** Stored answers of /v1/responses. */
  readonly responses: StoredResponses
  /** Returns true if this encoder output already exists here or at an encode engine, and remembers it otherwise. */
  encoded(item: number): boolean
  newId(): string
  /** Crashes the process. */
  crash(): void
}

/* Stored answers. */

/** An answer of /v1/responses with its conversation as chat messages. */
interface StoredResponse {
  readonly response: Readonly<Record<string, unknown>>
  readonly messages: readonly Body[]
}

/** The newest answers of an engine. Older ones are discarded, as by a restart. */
export class StoredResponses {
  readonly #limit: number
  readonly #byId = new Map<string, StoredResponse>()

  constructor(limit: number) {
    this.#limit = limit
  }

  get(id: string): StoredResponse | undefined {
    return this.#byId.get(id)
  }

  put(id: string, stored: StoredResponse): void {
    this.#byId.set(id, stored)
    if (this.#byId.size <= this.#limit) return
    const [oldest] = this.#byId.keys()
    this.#byId.delete(oldest!)
  }
}
