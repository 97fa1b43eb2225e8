import type { Authenticator } from '../auth/authenticator.ts'
import { keyOrAdmin } from '../auth/key-or-admin.ts'
import type { Middleware } from './middleware.ts'

/**
 * Requires this secret, or the admin key.
 * @param secret null: only the admin key
 * @param name key of the secret in the document
 */
export function authenticateKeyOrAdmin(authenticator: Authenticator, secret: string | null, name: string): Middleware {
  const admit = keyOrAdmin(authenticator, secret, name)
  return async (c, next) => {
    await admit(c.get('incoming').request.headers)
    await next()
  }
}
