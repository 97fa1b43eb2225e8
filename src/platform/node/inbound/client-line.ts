/** The way back to one client, as the pipe writes it: a head, bytes, an end. What `RequestScope.client` holds on Node. */
import { IncomingMessage, ServerResponse } from 'node:http'
import type { RequestScope } from '../../../ports.ts'
import { NodeLine } from './node-line.ts'

export interface ClientLine {
  /** A head is on its way, or was. */
  readonly begun: boolean
  /** Nobody listens any more. */
  readonly gone: boolean
  /** The client understands chunked bodies. */
  readonly takesChunks: boolean
  /** Memory given to the last write is still in use. */
  readonly holds: boolean
  /**
   * Waits for the first bytes, to leave with them. `headers`: flat name, value, with what frames the body where that is
   * known. `framed`: what is written carries the chunk framing itself.
   */
  head(status: number, headers: readonly string[], framed: boolean): void
  /** `last`: the end follows. false: the client has not taken all of it; `drained` tells when. */
  write(bytes: Uint8Array, last: boolean): boolean
  /** What has been written may leave. */
  flush(): void
  /** The body is complete. */
  end(): void
  /** Ends the connection behind what is written: the client sees a cut. */
  cut(): void
  destroy(): void
  /** Once, when all that was written has been taken. */
  drained(tell: () => void): void
}

/** What the adapter of @hono/node-server gives: the objects node:http made for the request. */
export interface NodeClient {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
}

/** null: there is no socket to write to (a test's own fetch, HTTP/2). */
export function clientLineOf({ client }: RequestScope): ClientLine | null {
  if (client === null || client === undefined) return null
  if (isLine(client)) return client
  const { incoming, outgoing } = client as Partial<NodeClient>
  if (incoming === undefined || outgoing === undefined) return null
  // An HTTP/2 response's socket is a guard that throws when touched.
  return incoming.httpVersionMajor === 1 ? new NodeLine(outgoing) : null
}

const isLine = (client: unknown): client is ClientLine => typeof (client as Partial<ClientLine>).cut === 'function'
