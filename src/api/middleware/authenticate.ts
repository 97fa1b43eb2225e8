import type { Authenticator } from '../auth/authenticator.ts'
import type { Caller } from '../auth/caller.ts'
import type { Middleware } from './middleware.ts'

/**
 * Finds the client of a request by its key or token.
 * @param acceptsApiKeyHeader also accept `x-api-key`, as Anthropic's clients send it
 */
export const authenticate =
  (authenticator: Pick<Authenticator, 'caller'>, acceptsApiKeyHeader: boolean): Middleware =>
  (c, next) => {
    const incoming = c.get('incoming')
    const pass = (caller: Caller): Promise<void> => {
      incoming.logFields.tenant = caller.tenant
      c.set('caller', caller)
      return next()
    }
    const caller = authenticator.caller(incoming.request.headers, acceptsApiKeyHeader)
    return caller instanceof Promise ? caller.then(pass) : pass(caller)
  }
