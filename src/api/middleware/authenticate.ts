import type { Authenticator } from '../auth/authenticator.ts'
import type { Middleware } from './middleware.ts'

/**
 * Finds the client of a request by its key or token.
 * @param acceptsApiKeyHeader also accept `x-api-key`, as Anthropic's clients send it
 */
export const authenticate =
  (authenticator: Pick<Authenticator, 'caller'>, acceptsApiKeyHeader: boolean): Middleware =>
  async (c, next) => {
    const incoming = c.get('incoming')
    const caller = await authenticator.caller(incoming.request.headers, acceptsApiKeyHeader)
    incoming.logFields.tenant = caller.tenant
    c.set('caller', caller)
    await next()
  }
