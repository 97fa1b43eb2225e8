/** Keeps web pages away from a gateway without keys: cross-site requests and DNS rebinding. */
import type { Config } from '../../config.ts'
import { Failure } from '../../failure.ts'
import { matchesHost } from '../../url.ts'
import { allowedOrigin } from '../cors.ts'
import type { HeaderReader } from './bearer.ts'

/** A gateway without keys must not serve pages of the user's browser. Browsers always send this header. */
export function refuseForeignPages(headers: HeaderReader, cors: Config['cors']): void {
  if (headers.get('sec-fetch-site') !== 'cross-site' || allowedOrigin(cors, headers) !== undefined) return
  throw new Failure(
    'forbidden',
    'Cross-site requests are refused while the gateway has no `keys`. Configure `keys`, or add the origin to `cors`.',
  )
}

const LOOPBACK_HOST = /^(?:localhost|[\w-]+\.localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i

/** With DNS rebinding, a foreign name resolves to this host and a page has the gateway's origin. */
export function refuseForeignHost(headers: HeaderReader, allowed: readonly string[]): void {
  const sent = headers.get('host')
  // Only HTTP/1.0 has no host, and browsers do not use it.
  if (sent === null || LOOPBACK_HOST.test(sent)) return
  const host = sent.toLowerCase().replace(/:\d+$/, '')
  if (allowed.some((one) => matchesHost(host, one))) return
  throw new Failure(
    'forbidden',
    `The host '${host.slice(0, 100)}' is refused while the gateway has no keys: only loopback names are allowed. ` +
      'Add the host to allowed_hosts, or set keys (for the admin routes admin.secret).',
  )
}
