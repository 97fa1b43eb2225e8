import { DigestCache } from './digest-cache.ts'
import type { Exchange } from '../exchange.ts'
import { type Pass, passOverOne } from '../placement/placement-passes.ts'

/** Digests of a gateway in which one pool serves each model: nothing is compared. */
export class OnePoolDigests extends DigestCache {
  override firstPass({ routes, scope }: Exchange): Pass {
    this.current(routes[0]!, scope)
    return passOverOne(routes)
  }
}
