import type { Config } from '../config.ts'
import { cors } from './middleware/cors.ts'
import { loopCheck } from './middleware/loop-check.ts'
import type { Chain } from './middleware/middleware.ts'
import type { RouteParts } from './add-route.ts'

export interface RouteMiddlewareParts extends RouteParts {
  readonly config: Pick<Config, 'cors' | 'via'>
}

/** Middleware in front of a route of the engines' API, which pages of other origins may use if CORS is configured. */
export const clientMiddleware = ({ config }: Pick<RouteMiddlewareParts, 'config'>): Chain => [
  ...(config.cors === null ? [] : [cors(config.cors)]),
  loopCheck(config.via),
]

/** Middleware in front of a route for operators and other machines, to which CORS never applies. */
export const operatorMiddleware = ({ config }: Pick<RouteMiddlewareParts, 'config'>): Chain => [loopCheck(config.via)]
