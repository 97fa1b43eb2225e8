import type { RequestContext } from './request-context.ts'

/** JSON response of the gateway itself. */
export function jsonResponse(incoming: RequestContext, value: unknown, status = 200): Response {
  const headers = {
    'content-type': 'application/json',
    'cache-control': 'no-store',
    'x-request-id': incoming.requestId,
  }
  return new Response(JSON.stringify(value), { status, headers })
}
