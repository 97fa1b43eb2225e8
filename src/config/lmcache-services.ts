import type { LmcacheConfig } from '../config.ts'

/** Directory services of LMCache. Each has a key with its URL in `lmcache`. */
export const LMCACHE_SERVICES = ['coordinator', 'controller'] as const

export type LmcacheService = (typeof LMCACHE_SERVICES)[number]

interface ConfiguredService {
  readonly kind: LmcacheService
  readonly url: string
}

/** Services that are configured. Valid configurations have one, or none if the gateway itself is the registry. */
export const lmcacheServices = (lmcache: LmcacheConfig): readonly ConfiguredService[] =>
  LMCACHE_SERVICES.flatMap((kind) => {
    const url = lmcache[kind]
    return url === null ? [] : [{ kind, url }]
  })
