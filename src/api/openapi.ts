/** `GET /openapi.json`: OpenAPI 3.1 document of the admin API. */
import { jsonResponse } from './json-response.ts'
import type { RequestContext } from './request-context.ts'

/** Loads the document at the first request, because a gateway may never need it. */
export async function openApi(incoming: RequestContext): Promise<Response> {
  const { default: document } = await import('./openapi/document.json', { with: { type: 'json' } })
  return jsonResponse(incoming, document)
}
