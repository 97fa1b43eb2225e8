/** An endpoint picker in front of two healthy engines, and a client of its port. A test answers in place of the engines. */
import { until } from '../wait.ts'
import { FakeEngine } from './fake-engine.ts'
import { GrpcTestClient } from './grpc-client.ts'
import type { Config } from '../../src/config.ts'
import { gatewayDocument, openGateway, type TestGateway } from './gateway.ts'
import { nodeConfig } from './node-gateway.ts'

/** Key that the engines expect. */
export const ENGINE_KEY = 'key-of-the-engines'

export interface TestPicker extends AsyncDisposable {
  readonly gateway: TestGateway
  readonly client: GrpcTestClient
  /** Address of the engine `a`. */
  readonly a: string
  /** Address of the engine `b`. */
  readonly b: string
  /** Applies the configuration with these changes, as a reload does. */
  adopt(changes: Partial<Config>): Promise<void>
  /** Applies the configuration with a further engine, as discovery does. */
  addEngine(engine: { readonly id: string; readonly url: string }): Promise<void>
}

interface PickerChanges {
  /** Further keys of `epp`. */
  readonly epp?: object
  readonly pool?: object
  /** Further keys of both engines. */
  readonly engine?: object
  readonly config?: object
}

export async function openPicker({
  epp = {},
  pool = {},
  engine: own = {},
  config = {},
}: PickerChanges = {}): Promise<TestPicker> {
  const routes = { 'GET /health': { body: {} }, 'GET *': { status: 404, body: {} } }
  const engines = [await FakeEngine.open(routes), await FakeEngine.open(routes)] as const
  const [a, b] = engines.map(({ url }) => new URL(url).host) as [string, string]
  const options = {
    engines: [
      { id: 'a', url: engines[0].url, key: ENGINE_KEY, ...own },
      { id: 'b', url: engines[1].url, key: ENGINE_KEY, ...own },
    ],
    pool: { policy: 'least_loaded', ...pool },
    config: { epp: { listen: '127.0.0.1:0', tls: 'off', ...epp }, ...config },
  }
  const gateway = await openGateway(options)
  const client = new GrpcTestClient(gateway.node.picker!)
  await until(async () => Object.values(await gateway.engines()).every(({ healthy }) => healthy === true))
  return {
    gateway,
    client,
    a,
    b,
    adopt(changes) {
      const running = nodeConfig(gatewayDocument(options))
      return gateway.node.adopt({ ...running, version: running.version + 1, ...changes })
    },
    async addEngine(engine) {
      const extended = nodeConfig(gatewayDocument({ ...options, engines: [...options.engines, engine] }))
      await gateway.node.adopt({ ...extended, version: extended.version + 1 })
    },
    async [Symbol.asyncDispose]() {
      client.session.destroy()
      await gateway.close()
      for (const engine of engines) await engine.close()
    },
  }
}
