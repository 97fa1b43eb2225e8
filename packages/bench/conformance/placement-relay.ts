/** An address in front of an engine that records when each client request was placed there. It passes all bytes at once. */
import { createServer, request } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A request that reached the engine. */
export interface PlacedRequest {
  /** `performance.now()`. */
  readonly at: number
  /** Its `x-request-id`. */
  readonly id: string | null
}

export interface PlacementRelay {
  readonly url: string
  readonly placed: readonly PlacedRequest[]
  stop(): Promise<void>
}

/** Opens a relay to `target`. Requests whose id does not begin with `prefix`, such as trials, are passed and not recorded. */
export async function openPlacementRelay(target: string, prefix: string): Promise<PlacementRelay> {
  const placed: PlacedRequest[] = []
  const server = createServer((incoming, outgoing) => {
    const id = incoming.headers['x-request-id']
    if (typeof id === 'string' && id.startsWith(prefix)) placed.push({ at: performance.now(), id })
    pass(target, incoming, outgoing)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    placed,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function pass(target: string, incoming: IncomingMessage, outgoing: ServerResponse): void {
  const sent = request(
    `${target}${incoming.url}`,
    { method: incoming.method!, headers: { ...incoming.headers, host: new URL(target).host }, agent: false },
    (response) => {
      outgoing.writeHead(response.statusCode!, response.headers)
      response.on('error', () => outgoing.destroy())
      response.pipe(outgoing)
    },
  )
  sent.on('error', () => outgoing.destroy())
  incoming.on('error', () => sent.destroy())
  incoming.pipe(sent)
  // A client that leaves leaves the engine, too.
  outgoing.on('close', () => sent.destroy())
}
