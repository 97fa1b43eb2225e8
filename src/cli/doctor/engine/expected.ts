import type { EngineConfig, PoolSettings } from '../../../config.ts'

/** What the configuration states about the engine; null: only its URL is known. */
export interface ExpectedEngine {
  readonly pool: PoolSettings
  readonly engine: EngineConfig
}
