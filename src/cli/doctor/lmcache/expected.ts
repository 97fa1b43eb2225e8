/** What the configuration states about the cache beside a pool's engines. */
import type { PoolSettings } from '../../../config.ts'
import { type EngineInstance, hostOf } from '../../../core/lmcache/instance-map.ts'

export interface ExpectedLmcache {
  readonly pool: PoolSettings
  /** The model's name in LMCache's keys; null: neither configured nor reported by an engine. */
  readonly model: string | null
}

export const expectedPlaces = ({ pool }: ExpectedLmcache): EngineInstance[] =>
  pool.engines.map(({ id, url, lmcacheInstance }) => ({ id, host: hostOf(url), instance: lmcacheInstance }))
