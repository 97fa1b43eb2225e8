import { hasPassed, loopFailure } from '../../origin/via.ts'
import type { Middleware } from './middleware.ts'

/**
 * Refuses a request that has passed this gateway before.
 * @param via name of this gateway in `via` headers
 */
export const loopCheck =
  (via: string): Middleware =>
  ({ incoming }) => {
    if (hasPassed(incoming.request.headers.get('via'), via)) throw loopFailure()
  }
