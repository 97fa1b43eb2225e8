import type { CorsConfig } from '../../config.ts'
import { corsHeaders } from '../cors.ts'
import type { Middleware } from './middleware.ts'

/** Adds CORS headers to every response of the route. */
export const cors =
  (config: CorsConfig): Middleware =>
  ({ incoming }) => {
    incoming.cors = corsHeaders(config, incoming.request.headers)
  }
