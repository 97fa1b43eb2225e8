/** `GET /openapi.json`: OpenAPI 3.1 document of the admin API. */
import { jsonResponse } from './json-response.ts'
import type { RequestContext } from './request-context.ts'

/** Loads the schemas at the first request, because a gateway may never need them. */
export async function openApi(incoming: RequestContext): Promise<Response> {
  // oxlint-disable-next-line no-restricted-imports -- the only import that is not of types
  const { openApiDocument } = await import('./openapi/document.ts')
  return jsonResponse(incoming, openApiDocument)
}
