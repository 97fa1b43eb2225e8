import type { Authenticator } from '../auth/authenticator.ts'
import type { Middleware } from './middleware.ts'

/** Requires the admin key. Every route under `/v1/firstlight/` for operators has it. */
export const authenticateAdmin =
  (authenticator: Pick<Authenticator, 'admin'>): Middleware =>
  async (c, next) => {
    const incoming = c.get('incoming')
    await authenticator.admin(incoming.request.headers)
    incoming.logFields.tenant = 'admin'
    await next()
  }
