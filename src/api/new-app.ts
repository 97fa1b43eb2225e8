import { HonoBase } from 'hono/hono-base'
import { getPath } from 'hono/utils/url'
import type { RequestScope } from '../ports/request-scope.ts'
import { splitUrl } from '../url.ts'
import { StaticRouter } from './static-router.ts'

/** `Env` of Hono. */
export interface RequestEnv {
  readonly Bindings: RequestScope
}

/** Hono application of the gateway, or of one group of its routes. */
export type App = HonoBase<RequestEnv>

export const newApp = (): App => new HonoBase<RequestEnv>({ router: new StaticRouter(), getPath: pathOf })

/** Path of a request. Hono's own parser needs an absolute URL. */
export const pathOf = (raw: Pick<Request, 'url'>): string =>
  raw.url.startsWith('/') ? splitUrl(raw.url).path : getPath(raw as Request)
