import { expect, it } from 'vitest'
import { metricExportBody } from '../../src/telemetry/otlp-metrics.ts'

const TEXT = `# HELP firstlight_running Running \\\\ requests.\\nNow.
# TYPE firstlight_running gauge
firstlight_running{model="a \\"b\\"",engine="x,y=\\\\z"} 3
# HELP firstlight_requests Requests.
# TYPE firstlight_requests counter
firstlight_requests_total 12
# HELP firstlight_ttft_seconds First tokens.
# TYPE firstlight_ttft_seconds histogram
firstlight_ttft_seconds_bucket{engine="a",le="0.1"} 2
firstlight_ttft_seconds_bucket{engine="a",le="1.0"} 5 # {trace_id="0af7651916cd43dd8448eb211c80319c",span_id="b7ad6b7169203331"} 0.25 1.5
firstlight_ttft_seconds_bucket{engine="a",le="+Inf"} 6
firstlight_ttft_seconds_sum{engine="a"} 4.5
firstlight_ttft_seconds_count{engine="a"} 6
firstlight_ttft_seconds_bucket{engine="b",le="0.1"} 1
firstlight_ttft_seconds_bucket{engine="b",le="1.0"} 1
firstlight_ttft_seconds_bucket{engine="b",le="+Inf"} 1
firstlight_ttft_seconds_sum{engine="b"} 0.05
firstlight_ttft_seconds_count{engine="b"} 1
# EOF
`

const exported = (text: string) => {
  const body = metricExportBody(text, { service: 's', instance: 'i' }, { startedAt: 1_000, now: 2_000.5 }) as {
    resourceMetrics: { resource: unknown; scopeMetrics: { metrics: Record<string, unknown>[] }[] }[]
  }
  return body.resourceMetrics[0]!
}

it('the metrics of the text become gauges, monotonic sums and histograms', () => {
  const time = { startTimeUnixNano: '1000000000', timeUnixNano: '2000500000' }
  const { resource, scopeMetrics } = exported(TEXT)
  expect(resource).toEqual({
    attributes: [
      { key: 'service.name', value: { stringValue: 's' } },
      { key: 'service.instance.id', value: { stringValue: 'i' } },
    ],
  })
  expect(scopeMetrics[0]!.metrics).toEqual([
    {
      name: 'firstlight_running',
      description: 'Running \\ requests.\nNow.',
      gauge: {
        dataPoints: [
          {
            attributes: [
              { key: 'model', value: { stringValue: 'a "b"' } },
              { key: 'engine', value: { stringValue: 'x,y=\\z' } },
            ],
            ...time,
            asDouble: 3,
          },
        ],
      },
    },
    {
      name: 'firstlight_requests_total',
      description: 'Requests.',
      sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints: [{ attributes: [], ...time, asDouble: 12 }] },
    },
    {
      name: 'firstlight_ttft_seconds',
      description: 'First tokens.',
      unit: 's',
      histogram: {
        aggregationTemporality: 2,
        dataPoints: [
          {
            attributes: [{ key: 'engine', value: { stringValue: 'a' } }],
            ...time,
            count: '6',
            sum: 4.5,
            explicitBounds: [0.1, 1],
            bucketCounts: ['2', '3', '1'],
            exemplars: [
              {
                timeUnixNano: '1500000000',
                asDouble: 0.25,
                traceId: '0af7651916cd43dd8448eb211c80319c',
                spanId: 'b7ad6b7169203331',
              },
            ],
          },
          {
            attributes: [{ key: 'engine', value: { stringValue: 'b' } }],
            ...time,
            count: '1',
            sum: 0.05,
            explicitBounds: [0.1, 1],
            bucketCounts: ['1', '0', '0'],
          },
        ],
      },
    },
  ])
})
