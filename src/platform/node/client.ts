/** What `RequestScope.client` holds on Node: the objects node:http made for the request. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { RequestScope } from '../../ports.ts'

export interface NodeClient {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
}

/** null: not a request of node:http's HTTP/1 server (a test's own fetch, HTTP/2). */
export function nodeClientOf(scope: RequestScope): NodeClient | null {
  const client = scope.client as Partial<NodeClient> | null | undefined
  if (client?.incoming === undefined || client.outgoing === undefined) return null
  // An HTTP/2 response's socket is a guard that throws when touched.
  return client.incoming.httpVersionMajor === 1 ? (client as NodeClient) : null
}
