import { createExecutionContext, waitOnExecutionContext } from 'cloudflare:test'
import { env } from 'cloudflare:workers'
import { ConfigSource } from '../../src/platform/workers/config-source.ts'
import { IsolateGateway } from '../../src/platform/workers/isolate-gateway.ts'
import { createFleet } from '../../packages/simulator/src/fleet.ts'
import { lmcacheRegistryContract } from '../contracts/lmcache-registry.ts'
import { overridesContract } from '../contracts/overrides.ts'
import { waitingRequestsContract } from '../contracts/waiting-requests.ts'
import {
  lmcacheContract,
  lmcacheDocument,
  MODEL_PATH,
  type LmcacheWorld,
  type OpenLmcache,
  reloaded,
} from '../contracts/lmcache.ts'

lmcacheContract('workerd', open)
lmcacheRegistryContract('workerd', open)
overridesContract('workerd', open)
waitingRequestsContract('workerd', open)

let generation = 1000

/** Bindings lead to engines and the service, as for private networks. */
async function open({ service, pool }: Parameters<OpenLmcache>[0]): Promise<LmcacheWorld> {
  const fleet = createFleet({ engines: 3, profile: 'test', modelPath: MODEL_PATH })
  const given = pool('http://lmcache.internal') as { readonly lmcache?: object }
  const lmcache = given.lmcache === undefined ? {} : { lmcache: { ...given.lmcache, binding: 'BESIDE' } }
  const engines = fleet.engines.map(({ settings }, at) => ({ id: settings.id, url: fleet.urls[at]!, binding: 'FLEET' }))
  let document = lmcacheDocument({ ...given, ...lmcache, observe_share: 1 }, engines)
  generation += 1
  for (const cluster of document['clusters'] as Record<string, unknown>[]) cluster['generation'] = generation
  let now = Date.now()
  const bindings = {
    ...env,
    CONFIG: { get: async () => JSON.stringify(document) } as unknown as KVNamespace,
    FLEET: { fetch: (url: string, init: RequestInit) => fleet.fetch(new Request(url, init)) },
    BESIDE: { fetch: (url: string, init: RequestInit) => orAborted(service(new Request(url, init)), init.signal!) },
  }
  // Tests wait for the work behind a response, which includes the next sync.
  const live = new IsolateGateway(new ConfigSource(() => now), { syncMs: 0 })
  const send: LmcacheWorld['send'] = async (path, init) => {
    const context = createExecutionContext()
    const response = await live.fetch(new Request(`https://gateway.test${path}`, init), bindings, context)
    await waitOnExecutionContext(context)
    return response
  }
  return {
    fleet,
    send,
    async reload(change) {
      document = reloaded(document, change)
      now += 60_000
      // The first request reads the document behind its response, the next one adopts it.
      for (let at = 0; at < 2; at++) await send('/v1/models')
    },
    async close() {
      fleet.stop()
    },
  }
}

/** Rejects at an abort, as a real `fetch` does. */
function orAborted(answer: Promise<Response>, signal: AbortSignal): Promise<Response> {
  return new Promise((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
    answer.then(resolve, reject)
  })
}
