import type { Authenticator } from '../auth/authenticator.ts'
import type { Caller } from '../auth/caller.ts'
import type { Middleware } from './middleware.ts'

/**
 * Finds the client of a request by its key or token.
 * @param acceptsApiKeyHeader also accept `x-api-key`, as Anthropic's clients send it
 */
export const authenticate = (
  { caller, openCaller }: Pick<Authenticator, 'caller' | 'openCaller'>,
  acceptsApiKeyHeader: boolean,
): Middleware => {
  if (openCaller !== null) return (c, next) => pass(c, next, openCaller(c.get('incoming').request.headers))
  return async (c, next) => pass(c, next, await caller(c.get('incoming').request.headers, acceptsApiKeyHeader))
}

function pass(c: Parameters<Middleware>[0], next: () => Promise<void>, caller: Caller): Promise<void> {
  c.get('incoming').logFields.tenant = caller.tenant
  c.set('caller', caller)
  return next()
}
