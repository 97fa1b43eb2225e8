import type { Config } from '../config.ts'
import { type ErrorShape, openaiErrors } from '../protocols/error-shape.ts'
import { cors } from './middleware/cors.ts'
import { loopCheck } from './middleware/loop-check.ts'
import { requestLog, type RequestLogParts } from './middleware/request-log.ts'
import type { Chain, Middleware } from './middleware/middleware.ts'

export interface RouteMiddlewareParts extends RequestLogParts {
  readonly config: Pick<Config, 'cors' | 'via'>
}

/** Middleware in front of a route of the engines' API, which pages of other origins may use if CORS is configured. */
export const clientMiddleware = (parts: RouteMiddlewareParts, shape: ErrorShape = openaiErrors): Chain => [
  requestLog(parts, shape),
  ...clientGuards(parts.config),
]

export const clientGuards = (config: RouteMiddlewareParts['config']): readonly Middleware[] => [
  ...(config.cors === null ? [] : [cors(config.cors)]),
  loopCheck(config.via),
]

/** Middleware in front of a route for operators and other machines, to which CORS never applies. */
export const operatorMiddleware = (parts: RouteMiddlewareParts): Chain => [
  requestLog(parts, openaiErrors),
  loopCheck(parts.config.via),
]
