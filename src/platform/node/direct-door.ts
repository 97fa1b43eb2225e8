/**
 * The way in for requests that go to engines: from node:http to the handlers that Hono calls for them, without web
 * objects in between. It takes what it fully understands and leaves the rest to the adapter.
 */
import { getRequestListener } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Gateway } from '../../gateway.ts'
import type { Log, RequestScope } from '../../ports.ts'
import type { NodeClient } from './client.ts'
import { IncomingRequest } from './incoming-request.ts'

export interface DirectDoorParts {
  readonly gateway: Pick<Gateway, 'posts'>
  readonly scopeOf: (client: NodeClient) => RequestScope
  /** Takes everything else. */
  readonly rest: RequestListener
  readonly log: Log
}

/** Hosts the adapter takes as they are. Others it judges, and refuses some: let it. */
const PLAIN_HOST = /^[a-z0-9._-]+(?::(?:[1-5]\d{3,4}|[6-9]\d{3}))?$/

export function directDoor({ gateway, scopeOf, rest, log }: DirectDoorParts): RequestListener {
  return (incoming, outgoing) => {
    const serve = incoming.method === 'POST' ? gateway.posts.get(incoming.url!) : undefined
    if (serve === undefined || !PLAIN_HOST.test(incoming.headers.host ?? '')) return rest(incoming, outgoing)
    const request = new IncomingRequest(incoming)
    outgoing.on('close', () => {
      if (!outgoing.writableFinished) request.leave()
    })
    serve(request, scopeOf({ incoming, outgoing }))
      .then((response) => {
        if (response !== RESPONSE_ALREADY_SENT) answer(response, incoming, outgoing)
      })
      .catch((error: unknown) => {
        log.error('answer_failed', { error })
        outgoing.destroy()
      })
  }
}

/** Refusals, and what else did not go to the client's socket. The adapter knows how to write any of it, and what to do with a body nobody read. */
function answer(response: Response, incoming: IncomingMessage, outgoing: ServerResponse): void {
  // Too late for an answer: what was begun must not look complete.
  if (outgoing.headersSent) outgoing.destroy()
  else void getRequestListener(() => response)(incoming, outgoing)
}
