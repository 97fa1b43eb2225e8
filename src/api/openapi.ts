/** `GET /openapi.json`: OpenAPI 3.1 document of the admin API. */
import { jsonResponse } from './json-response.ts'
import document from './openapi/document.json' with { type: 'json' }
import type { RequestContext } from './request-context.ts'

/**
 * Loaded at the start: an upgrade in place removes the files of the running version, and a gateway loads none of them
 * later.
 */
export const openApi = (incoming: RequestContext): Response => jsonResponse(incoming, document)
