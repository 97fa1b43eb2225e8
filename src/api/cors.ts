/**
 * What pages of other origins may do (Fetch standard, 3.2): the one place that decides. Others only put its headers on
 * answers.
 * Never `access-control-allow-credentials`: keys travel in `authorization`, and no cookie opens anything here.
 */
import type { CorsConfig } from '../config.ts'
import type { RequestContext } from './request-context.ts'

/** Of a request's headers, what is asked here. */
type Fields = Pick<Headers, 'get'>

/** The page's origin, or `*`, where the operator lets it in. undefined: not let in, or no page. */
export function allowedOrigin(cors: CorsConfig | null, headers: Fields): string | undefined {
  const origin = headers.get('origin')
  return origin === null ? undefined : cors?.origins.find((one) => one === '*' || one === origin)
}

/**
 * For every answer to the request, flat: what other clients may read of it, the page may read. null: nothing, as for
 * all that is no browser.
 */
export function corsHeaders(cors: CorsConfig, headers: Fields): readonly string[] | null {
  if (headers.get('origin') === null) return null
  const origin = allowedOrigin(cors, headers)
  const flat = origin === undefined ? [] : ['access-control-allow-origin', origin, 'access-control-expose-headers', '*']
  return origin === '*' ? flat : [...flat, 'vary', 'origin']
}

/**
 * The answer to a browser that asks before it sends. `methods`: what the path takes. null: the request is something
 * else.
 * No key is asked for: browsers send none, and nothing is told that is not in the documents.
 */
export function preflight(
  { request: { method, headers: asked }, cors: own, logFields, requestId }: RequestContext,
  cors: CorsConfig | null,
  methods: string,
): Response | null {
  const origin = asked.get('origin')
  if (method !== 'OPTIONS' || origin === null || !asked.get('access-control-request-method')) return null
  const isIn = own !== null && allowedOrigin(cors, asked) !== undefined
  if (!isIn) logFields['refused_origin'] = origin.slice(0, 200)
  if (cors === null || own === null) return null
  const headers = new Headers({ 'x-request-id': requestId })
  if (isIn) {
    const names = asked.get('access-control-request-headers') ?? ''
    headers.set('access-control-allow-methods', methods)
    headers.set('access-control-max-age', String(cors.maxAgeS))
    // Names of headers, and nothing that could be more.
    if (/^[\w!#$%&'*+.^`|~, -]{1,4096}$/.test(names)) headers.set('access-control-allow-headers', names)
  }
  return new Response(null, { status: 204, headers })
}
