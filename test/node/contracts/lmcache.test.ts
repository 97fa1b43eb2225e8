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
import { FakeEngine } from '../../kit/fake-engine.ts'
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
const serve = (answer: (request: Request) => Promise<Response>): Promise<FakeEngine> =>
  FakeEngine.open({
    '*': async ({ method, target, bytes }) => {
      const body = bytes.length === 0 ? null : Uint8Array.from(bytes)
      const headers = { 'content-type': 'application/json' }
      const init: RequestInit = { method, body, headers }
      const response = await answer(new Request(`http://service${target}`, init))
      return {
        status: response.status,
        headers: { 'content-type': response.headers.get('content-type') ?? 'text/plain' },
        body: new Uint8Array(await response.arrayBuffer()),
      }
    },
  })
