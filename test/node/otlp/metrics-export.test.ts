import { expect, it } from 'vitest'
import { FakeEngine } from '../../kit/fake-engine.ts'
import { startNodeGateway } from '../../kit/node-gateway.ts'

interface Exported {
  readonly resourceMetrics: readonly {
    readonly scopeMetrics: readonly { readonly metrics: readonly { readonly name: string }[] }[]
  }[]
}

const document = (url: string, collector: string) => ({
  log: { level: 'warn' },
  metrics: { otlp: { endpoint: collector, headers: { 'x-key': 'k' }, interval_s: 3600 } },
  clusters: [{ id: 'c', pools: [{ model: 'm', engines: [{ id: 'a', url }] }] }],
})

it('the collector gets the metrics of the gateway, a last time at its end', async () => {
  const engine = await FakeEngine.open({ 'POST *': { body: { choices: [] } }, '*': { body: {} } })
  const collector = await FakeEngine.open({ 'POST *': { body: {} } })
  const gateway = await startNodeGateway(document(engine.url, collector.url))
  const text = await (await fetch(`${gateway.url}/metrics`)).text()
  await gateway.close()
  const [post] = collector.posts
  expect(post).toMatchObject({ path: '/v1/metrics', headers: { 'x-key': 'k' } })
  const { metrics } = (post!.json as unknown as Exported).resourceMetrics[0]!.scopeMetrics[0]!
  const names = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name!)
  expect(metrics.map(({ name }) => name)).toEqual(names)
  expect(names).toContain('firstlight_draining')
  await Promise.all([engine.close(), collector.close()])
})

it('a collector that refuses leaves a log line, and the gateway ends', async () => {
  const collector = await FakeEngine.open({ 'POST *': { status: 503, body: {} } })
  const gateway = await startNodeGateway(document(collector.url, collector.url))
  await gateway.close()
  expect(gateway.lines).toContainEqual(expect.objectContaining({ event: 'batch_export_failed', exporter: 'metrics' }))
  await collector.close()
})
