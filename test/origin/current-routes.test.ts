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

/** A gateway whose only engine is away; requests wait for one. `adopt` applies configurations one right after the other. */
async function openWaiting() {
  const options: GatewayOptions = {
    engines: [{ id: 'gone', url: 'http://127.0.0.1:1' }],
    pool: { queue: { no_engine_wait_ms: 600_000 }, stats_interval_ms: 100 },
  }
  const gateway = await openGateway(options)
  onTestFinished(() => gateway.close())
  await until(async () => (await gateway.engines())['gone']!['healthy'] === false)
  let { version } = nodeConfig(gatewayDocument(options))
  const adopt = async (...configured: readonly NonNullable<GatewayOptions['engines']>[]): Promise<void> => {
    const configs = configured.map((engines) => ({
      ...nodeConfig(gatewayDocument({ ...options, engines })),
      version: (version += 1),
    }))
    await Promise.all(configs.map((config) => gateway.node.adopt(config)))
  }
  return { gateway, adopt, gone: options.engines! }
}

async function openEngine(): Promise<FakeEngine> {
  const engine = await FakeEngine.open({
    'GET /health': { body: {} },
    'GET *': { status: 404, body: {} },
    'POST *': { body: completion('hello') },
  })
  onTestFinished(() => engine.close())
  return engine
}

it('a request that waits for an engine is served by one that is discovered meanwhile, after several configurations', async () => {
  const engine = await openEngine()
  const { gateway, adopt, gone } = await openWaiting()
  const answer = gateway.chat()
  await until(async () => (await waiting(gateway)) === 1)
  await adopt(gone)
  await adopt([...gone, { id: 'new', url: engine.url }])
  expect((await answer).status).toBe(200)
  expect(engine.posts).toHaveLength(1)
  await gateway.idle()
})

it('a request whose engine leaves again before it gets the request waits for the next one', async () => {
  const [first, second] = [await openEngine(), await openEngine()]
  const { gateway, adopt, gone } = await openWaiting()
  const answer = gateway.chat()
  await until(async () => (await waiting(gateway)) === 1)
  await adopt([...gone, { id: 'first', url: first.url }], gone)
  await until(() => gateway.logged('placement_unknown').length === 1)
  await until(async () => (await waiting(gateway)) === 1)
  await adopt([...gone, { id: 'second', url: second.url }])
  expect((await answer).status).toBe(200)
  expect([first.posts.length, second.posts.length]).toEqual([0, 1])
  await gateway.idle()
})
