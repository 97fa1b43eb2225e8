import { expect, it, onTestFinished } from 'vitest'
import { FakeEngine } from '../kit/fake-engine.ts'
import { gatewayDocument, type GatewayOptions, openGateway, type TestGateway } from '../kit/gateway.ts'
import { nodeConfig } from '../kit/node-gateway.ts'
import { completion } from '../kit/sse.ts'
import { until } from '../wait.ts'

const waiting = async (gateway: TestGateway): Promise<number> => {
  const { pools } = (await gateway.fleet()) as unknown as {
    readonly pools: readonly { readonly queue?: { requests: number } }[]
  }
  return pools[0]!.queue?.requests ?? 0
}

it('a request that waits for an engine is served by one that is discovered meanwhile, after several configurations', async () => {
  const engine = await FakeEngine.open({
    'GET /health': { body: {} },
    'GET *': { status: 404, body: {} },
    'POST *': { body: completion('hello') },
  })
  const options: GatewayOptions = {
    engines: [{ id: 'gone', url: 'http://127.0.0.1:1' }],
    pool: { queue: { no_engine_wait_ms: 600_000 }, stats_interval_ms: 100 },
  }
  const gateway = await openGateway(options)
  onTestFinished(async () => {
    await gateway.close()
    await engine.close()
  })
  await until(async () => (await gateway.engines())['gone']!['healthy'] === false)
  const answer = gateway.chat()
  await until(async () => (await waiting(gateway)) === 1)
  const { version } = nodeConfig(gatewayDocument(options))
  const adopt = (engines: NonNullable<GatewayOptions['engines']>, at: number): Promise<void> =>
    gateway.node.adopt({ ...nodeConfig(gatewayDocument({ ...options, engines })), version: version + at })
  await adopt(options.engines!, 1)
  await adopt([...options.engines!, { id: 'new', url: engine.url }], 2)
  expect((await answer).status).toBe(200)
  expect(engine.posts).toHaveLength(1)
  await gateway.idle()
})
