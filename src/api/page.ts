import type { Incoming } from './incoming.ts'

/** Nothing on a page comes from a request or from the configuration, and nothing runs that is not its own file. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

export interface PageOptions {
  readonly status?: number
  /** The name holds a hash of the content: it may be kept for good. */
  readonly immutable?: boolean
}

/** A page of the gateway's own, or a file it is made of. */
export function page(incoming: Incoming, type: string, body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>, { status = 200, immutable = false }: PageOptions = {}): Response {
  return new Response(body, {
    status,
    headers: {
      'content-type': type.startsWith('image/') ? type : `${type}; charset=utf-8`,
      'content-security-policy': POLICY,
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': immutable ? 'public, max-age=31536000, immutable' : 'no-cache',
      'x-request-id': incoming.requestId,
    },
  })
}
