import type { EngineConfig, PoolSettings } from '../../../config.ts'

/** What the configuration states about the engine; null: only its URL is known. */
export interface Expected {
  readonly pool: PoolSettings
  readonly engine: EngineConfig
}
