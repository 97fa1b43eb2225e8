import { BoundedMap } from '../../core/bounded-map.ts'
import type { EngineTarget } from '../../ports/engine-target.ts'
import { withoutQuery } from '../../url.ts'

/** Time, ms, after which a route is tried again. The engine may have been replaced. */
const VALID_MS = 600_000

/** Clients choose neither paths nor engines, but engines come and go. */
const MAX_ROUTES = 10_000

/** Routes that engines lack, learned from their answers. */
export class MissingRoutes {
  readonly #until = new BoundedMap<string, number>(MAX_ROUTES)
  /** false as long as no engine lacks a route, which is usual, so that a request costs nothing. */
  isUsed = false

  isMissing(target: EngineTarget, route: string, now: number): boolean {
    return this.isUsed && (this.#until.get(keyOf(target, route)) ?? 0) > now
  }

  learn(target: EngineTarget, route: string, now: number): void {
    this.isUsed = true
    this.#until.set(keyOf(target, route), now + VALID_MS)
  }

  /** The engine has answered there. */
  forget(target: EngineTarget, route: string): void {
    this.#until.delete(keyOf(target, route))
  }
}

const keyOf = ({ url }: EngineTarget, route: string): string => `${url} ${route}`

/** Method and path without ids and query. */
export function routeNameOf(method: string, path: string): string {
  const bare = withoutQuery(path)
  return `${method} ${bare.replace(/^\/v1\/responses\/[^/]+/, '/v1/responses/ID')}`
}
