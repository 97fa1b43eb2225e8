import { Failure } from '../failure.ts'
import type { AssetFiles } from '../ports/assets.ts'
import type { RequestContext } from './request-context.ts'

/** Content security policy: pages contain nothing from requests or configuration, and run only their own files. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri " +
  "'none'; form-action 'none'; frame-ancestors 'none'"

interface PageOptions {
  readonly status?: number
  /** The name has a hash of the content, so caches may keep it. */
  readonly immutable?: boolean
}

/** Response with a page, or with a file of a page. */
function htmlResponse(
  incoming: RequestContext,
  type: string,
  body: string | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>,
  { status = 200, immutable = false }: PageOptions = {},
): Response {
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

const TYPES: Readonly<Record<string, string>> = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml' }

const UNBUILT = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Firstlight</title>
</head>
<body>
<main>
<h1>Firstlight is running, but its pages are not built</h1>
<p>Build them once, in the folder of the gateway:</p>
<pre>npm run build:dashboard</pre>
<p>Then reload this page. On Workers, deploy again: <code>npm run deploy</code> builds them.</p>
</main>
</body>
</html>
`

/**
 * Returns an operator's page: `overview.html` at `/`, `index.html` at `/dashboard`, `runbook.html` at `/runbook`. It
 * has no data; its script requests them with the admin key.
 */
export async function dashboardPage(files: AssetFiles, incoming: RequestContext, name: string): Promise<Response> {
  const body = await files(name)
  return body === null
    ? htmlResponse(incoming, 'text/html', UNBUILT, { status: 503 })
    : htmlResponse(incoming, 'text/html', body)
}

/** Returns a file of a page; its name has a hash. */
export async function dashboardFile(files: AssetFiles, incoming: RequestContext, name: string): Promise<Response> {
  const type = TYPES[/^[\w-]+\.([a-z]+)$/.exec(name)?.[1] ?? '']
  const body = type === undefined ? null : await files(name)
  if (type === undefined || body === null)
    throw new Failure('not_found', 'Dashboard file not found. Reload /dashboard: it may have been rebuilt.')
  return htmlResponse(incoming, type, body, { immutable: true })
}

/** The URLs in the page are relative to `/dashboard`, so that it works below any prefix. */
export function dashboardSlash(incoming: RequestContext): Response {
  return new Response(null, { status: 308, headers: { location: '../dashboard', 'x-request-id': incoming.requestId } })
}
