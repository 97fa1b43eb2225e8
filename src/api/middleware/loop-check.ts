import { hasPassed, loopFailure } from '../../origin/via.ts'
import type { Middleware } from './middleware.ts'

/**
 * Refuses a request that has passed this gateway before.
 * @param via name of this gateway in `via` headers
 */
export const loopCheck =
  (via: string): Middleware =>
  (c, next) => {
    if (hasPassed(c.get('incoming').request.headers.get('via'), via)) throw loopFailure()
    return next()
  }
