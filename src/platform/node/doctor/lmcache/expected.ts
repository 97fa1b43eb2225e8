/** What a configuration says of the cache beside its engines. */
import type { PoolSettings } from '../../../../config.ts'
import { hostOf, type EnginePlace } from '../../../../core/lmcache/instance-map.ts'

export interface LmcacheExpected {
  readonly pool: PoolSettings
  /** The model's name in LMCache's keys; null: neither configured nor said by an engine. */
  readonly model: string | null
}

export const expectedPlaces = ({ pool }: LmcacheExpected): EnginePlace[] => pool.engines.map(({ id, url, lmcacheInstance }) => ({ id, host: hostOf(url), instance: lmcacheInstance }))
