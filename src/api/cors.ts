/**
 * CORS for pages of other origins (Fetch standard, section 3.2). All decisions are here; other code only adds the
 * headers. Never `access-control-allow-credentials`: keys are in `authorization`, and cookies have no effect here.
 */
import type { CorsConfig } from '../config.ts'
import type { RequestContext } from './request-context.ts'

/** The headers of a request that are read here. */
type HeaderReader = Pick<Headers, 'get'>

/** The page's origin, or `*`, if the configuration allows it. undefined: not allowed, or not sent by a page. */
export function allowedOrigin(cors: CorsConfig | null, headers: HeaderReader): string | undefined {
  const origin = headers.get('origin')
  return origin === null ? undefined : cors?.origins.find((one) => one === '*' || one === origin)
}

/**
 * CORS headers for every response to the request, flat, so that a page can read what other clients can read. null:
 * none, as for all clients but browsers.
 */
export function corsHeaders(cors: CorsConfig, headers: HeaderReader): readonly string[] | null {
  if (headers.get('origin') === null) return null
  const origin = allowedOrigin(cors, headers)
  const flat = origin === undefined ? [] : ['access-control-allow-origin', origin, 'access-control-expose-headers', '*']
  return origin === '*' ? flat : [...flat, 'vary', 'origin']
}

/**
 * Response to a preflight request. `methods`: those of the path. null: not a preflight request.
 * Needs no key, because browsers send none and the response holds nothing confidential.
 */
export function preflight(
  { request: { method, headers: requestHeaders }, cors: own, logFields, requestId }: RequestContext,
  cors: CorsConfig | null,
  methods: string,
): Response | null {
  const origin = requestHeaders.get('origin')
  if (method !== 'OPTIONS' || origin === null || !requestHeaders.get('access-control-request-method')) return null
  const isAllowed = own !== null && allowedOrigin(cors, requestHeaders) !== undefined
  if (!isAllowed) logFields.refused_origin = origin.slice(0, 200)
  if (cors === null || own === null) return null
  const headers = new Headers({ 'x-request-id': requestId })
  if (isAllowed) {
    const names = requestHeaders.get('access-control-request-headers') ?? ''
    headers.set('access-control-allow-methods', methods)
    headers.set('access-control-max-age', String(cors.maxAgeS))
    // Only header names are returned.
    if (/^[\w!#$%&'*+.^`|~, -]{1,4096}$/.test(names)) headers.set('access-control-allow-headers', names)
  }
  return new Response(null, { status: 204, headers })
}
