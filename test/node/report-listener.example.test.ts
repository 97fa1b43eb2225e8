import type { AddressInfo, Server } from 'node:net'
import { expect, it } from 'vitest'
import { startFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { startNodeGateway } from '../kit/node-gateway.ts'
import { until } from '../wait.ts'

const reporter = (await import(new URL('../../examples/ttft-reporter/reporter.mjs', import.meta.url).href)) as {
  metricsIn(text: string): unknown
  startReporter(options: object): Promise<Server>
}

it('the report listener finds the metrics of a response, whatever surrounds them', () => {
  expect(
    reporter.metricsIn('data: {"usage":{},"metrics":{"queue_time_ms":0.1,"more":{"deep":{}}}}\n\ndata: [DONE]\n\n'),
  ).toEqual({ queue_time_ms: 0.1, more: { deep: {} } })
  expect(reporter.metricsIn('{"metrics":null}')).toBeNull()
  expect(reporter.metricsIn('{"metrics":{"queue')).toBeNull()
})

it.each([true, false])(
  'the report listener reports what stock vLLM says of its requests (stream: %s)',
  async (stream) => {
    const fleet = await startFleet({ engines: 1 })
    const taken = { host: '127.0.0.1', port: 0 }
    const gatewayOf = (url: string) =>
      startNodeGateway({
        ttft: { enabled: true, listen: '127.0.0.1:0' },
        clusters: [{ id: 'c', pools: [{ model: 'sim', engines: [{ id: 'e', url }] }] }],
      })
    const authenticator = await gatewayOf('http://127.0.0.1:9')
    const beside = await reporter.startReporter({
      engine: fleet.urls[0],
      ...taken,
      reportUrl: new URL(`http://${authenticator.reports}/ttft_report`),
    })
    const gateway = await gatewayOf(`http://127.0.0.1:${(beside.address() as AddressInfo).port}`)
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-request-id': 'stock-1' },
      body: JSON.stringify({ model: 'sim', stream, max_tokens: 4, messages: [{ role: 'user', content: 'hi' }] }),
    })
    await answer.text()
    const ttftMs = await until(async () => {
      const { combined } = (await (await fetch(`${authenticator.url}/ttft_report/stock-1`)).json()) as {
        combined?: { ttft_ms: number | null }
      }
      return combined?.ttft_ms
    })
    expect(ttftMs).toBeGreaterThan(0)
    await Promise.all([gateway.stop(AbortSignal.abort()), authenticator.stop(AbortSignal.abort())])
    beside.close()
    await fleet.close()
  },
)
