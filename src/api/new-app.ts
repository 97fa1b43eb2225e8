import { HonoBase } from 'hono/hono-base'
import { getPath } from 'hono/utils/url'
import { splitUrl } from '../url.ts'
import { isChained } from './middleware/chained.ts'
import type { RequestEnv } from './middleware/middleware.ts'
import { StaticRouter } from './static-router.ts'

/** Hono application of the gateway, or of one group of its routes. */
export type App = HonoBase<RequestEnv>

export const newApp = (): App =>
  new HonoBase<RequestEnv>({ router: new StaticRouter(([handler]) => isChained(handler)), getPath: pathOf })

/** Path of a request. Hono's own parser needs an absolute URL. */
export const pathOf = (raw: Request): string => (raw.url.startsWith('/') ? splitUrl(raw.url).path : getPath(raw))
