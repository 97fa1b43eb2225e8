import type { Clock } from '../clock.ts'
import type { Driver } from '../driver.ts'
import type { EngineSettings } from '../engine-options.ts'
import type { KvConnector } from '../kv-connector.ts'
import type { ReportSink } from '../ttft-reporter.ts'
import type { ServingMetrics } from './metrics-text.ts'
import type { StoredResponses } from './stored-responses.ts'

/** `system_fingerprint` of every answer. */
export const FINGERPRINT = 'vllm-0.32.0-simulated'

/** What the endpoints need of the engine process they belong to. */
export interface Serving {
  readonly settings: EngineSettings
  readonly driver: Driver
  readonly clock: Clock
  readonly metrics: ServingMetrics
  /** Prefill/decode hand-over; null: no connector, `kv_transfer_params` is ignored. */
  readonly kv: KvConnector | null
  /** Where the stages before a first token are reported to; null: nowhere. */
  readonly report: ReportSink | null
  /** Answers of /v1/responses that can be asked for again. */
  readonly responses: StoredResponses
  /** Has this encoder output been made by an encode engine or here? Remembers it if not. */
  encoded(item: number): boolean
  newId(): string
  /** The process dies of this request. */
  crash(): void
}
