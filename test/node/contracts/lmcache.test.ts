import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { startFleet } from '../../../packages/simulator/src/node/fleet-host.ts'
import { lmcacheRegistryContract } from '../../contracts/lmcache-registry.ts'
import { overridesContract } from '../../contracts/overrides.ts'
import { waitingRequestsContract } from '../../contracts/waiting-requests.ts'
import {
  lmcacheContract,
  lmcacheDocument,
  MODEL_PATH,
  type LmcacheWorld,
  type OpenLmcache,
  reloaded,
} from '../../contracts/lmcache.ts'
import { nodeConfig, startNodeGateway } from '../../kit/node-gateway.ts'

lmcacheContract('Node', open)
lmcacheRegistryContract('Node', open)
overridesContract('Node', open)
waitingRequestsContract('Node', open)

async function open({ service, pool }: Parameters<OpenLmcache>[0]): Promise<LmcacheWorld> {
  const fleet = await startFleet({ engines: 3, profile: 'test', modelPath: MODEL_PATH })
  const beside = await serve(service)
  let document = lmcacheDocument(
    pool(beside.url),
    fleet.engines.map(({ settings }, at) => ({ id: settings.id, url: fleet.urls[at]! })),
  )
  const gateway = await startNodeGateway(document)
  return {
    fleet,
    send: (path, init) => fetch(`${gateway.url}${path}`, init),
    async reload(change) {
      document = reloaded(document, change)
      await gateway.adopt(nodeConfig(document))
    },
    async close() {
      await gateway.stop(AbortSignal.abort())
      await fleet.close()
      await beside.close()
    },
  }
}

/** Serves a `fetch` function on a port. */
async function serve(
  answer: (request: Request) => Promise<Response>,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const server = createServer(async (incoming, outgoing) => {
    const pieces: Buffer[] = []
    for await (const piece of incoming) pieces.push(piece as Buffer)
    const body = pieces.length === 0 ? null : Buffer.concat(pieces)
    const response = await answer(
      new Request(`http://service${incoming.url}`, {
        method: incoming.method!,
        body,
        headers: { 'content-type': 'application/json' },
      }),
    )
    outgoing.writeHead(response.status, { 'content-type': response.headers.get('content-type') ?? 'text/plain' })
    outgoing.end(Buffer.from(await response.arrayBuffer()))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}
