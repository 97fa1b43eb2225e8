/** LMCache's legacy directory service, `lmcache_controller`, as of 0.5.6. */
import * as z from 'zod/mini'
import type { ListedInstance } from '../../core/lmcache/instance-map.ts'
import type { Holders, PrefixMatch } from '../../core/lmcache/prefix-match.ts'
import type { OriginTarget } from '../../ports/engine-target.ts'
import type { Origin } from '../../ports/origin.ts'
import type { CachedPrompt, CacheSource, CallLimits } from './cache-source.ts'
import { readAs, requestJson } from './request-json.ts'

/**
 * Location and end of each holder, as a pair. Today one holder; with LMCache#4471 every holder of a contiguous prefix.
 */
const controllerLookupAnswer = z.object({
  layout_info: z.record(z.string(), z.array(z.union([z.string(), z.int().check(z.gte(0))]))),
})

const instanceAnswer = z.object({ res: z.nullish(z.string()) })

/** Largest number of concurrent lookups. */
const MAX_CONCURRENT = 8

export class Controller implements CacheSource {
  readonly needs = { model: false }
  /** It also counts an incomplete last chunk. */
  readonly minTokens = 0
  readonly #origin: Origin
  readonly #target: OriginTarget

  constructor(origin: Origin, target: OriginTarget) {
    this.#origin = origin
    this.#target = target
  }

  async holders({ tokens }: CachedPrompt, limits: CallLimits): Promise<Holders> {
    const answer = await requestJson(this.#origin, this.#target, {
      path: '/lookup',
      body: { tokens: Array.from(tokens) },
      ...limits,
    })
    const { layout_info: layout } = readAs(controllerLookupAnswer, answer)
    return {
      instances: new Map(
        Object.entries(layout).map(([instance, [location, end]]) => [
          instance,
          matchOf(String(location), Number(end) || 0),
        ]),
      ),
      shared: 0,
    }
  }

  async instances(hosts: readonly string[], limits: CallLimits): Promise<readonly ListedInstance[]> {
    const found: ListedInstance[] = []
    for (let from = 0; from < hosts.length; from += MAX_CONCURRENT) {
      const group = hosts.slice(from, from + MAX_CONCURRENT)
      const answers = await Promise.allSettled(
        group.map((ip) =>
          requestJson(this.#origin, this.#target, {
            path: '/query_instance',
            body: { event_id: `firstlight-${ip}`, ip },
            ...limits,
          }),
        ),
      )
      for (const [index, answer] of answers.entries()) {
        // For an unregistered host some versions return an error, others null.
        const instance = answer.status === 'fulfilled' ? instanceAnswer.safeParse(answer.value).data?.res : null
        if (instance) found.push({ id: instance, host: group[index]! })
      }
    }
    return found
  }

  async worldSize(): Promise<null> {
    return null
  }
}

/**
 * Maps the controller's locations, which are names of its backends: LocalCPUBackend, LocalDiskBackend, RemoteBackend
 * and others.
 */
function matchOf(location: string, tokens: number): PrefixMatch {
  if (/cpu/i.test(location)) return { host: tokens, disk: tokens, remote: tokens }
  if (/disk|gds/i.test(location)) return { host: 0, disk: tokens, remote: tokens }
  return { host: 0, disk: 0, remote: tokens }
}
