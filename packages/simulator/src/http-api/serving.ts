import type { Clock } from '../clock.ts'
import type { Driver } from '../driver.ts'
import type { EngineSettings } from '../engine-options.ts'
import type { KvConnector } from '../kv-connector.ts'
import type { ReportSink } from '../ttft-reporter.ts'
import type { ServingMetrics } from './serving-metrics.ts'
import type { StoredResponses } from './stored-responses.ts'

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
  /** Its answers are those of another model. */
  readonly hasWrongWeights: boolean
  /** Stored answers of /v1/responses. */
  readonly responses: StoredResponses
  /** Returns true if this encoder output already exists here or at an encode engine, and remembers it otherwise. */
  encoded(item: number): boolean
  newId(): string
  /** Crashes the process. */
  crash(): void
}
