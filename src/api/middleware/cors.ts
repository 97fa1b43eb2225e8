import type { CorsConfig } from '../../config.ts'
import { corsHeaders } from '../cors.ts'
import type { Middleware } from './middleware.ts'

/** Adds CORS headers to every response of the route. */
export const cors =
  (config: CorsConfig): Middleware =>
  (c, next) => {
    const incoming = c.get('incoming')
    incoming.cors = corsHeaders(config, incoming.request.headers)
    return next()
  }
