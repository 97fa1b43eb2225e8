import { expect, it } from 'vitest'
import { logExportBody } from '../../src/telemetry/otlp-logs.ts'

it('a line becomes a log record with severity, event, body, attributes and trace', () => {
  const line = JSON.stringify({
    level: 'warn',
    time: '2026-11-21T20:07:34.183Z',
    event: 'request',
    status: 200,
    head_ms: 41,
    tenant: null,
    notes: ['hedged'],
    stages_ms: { edge: 1, ttft: 41.5 },
    trace_id: '0af7651916cd43dd8448eb211c80319c',
    message: 'request',
  })
  const body = logExportBody([`${line}\n`], { service: 's', instance: 'i' }) as {
    resourceLogs: { scopeLogs: { logRecords: unknown[] }[] }[]
  }
  expect(body.resourceLogs[0]!.scopeLogs[0]!.logRecords).toEqual([
    {
      timeUnixNano: '1795291654183000000',
      observedTimeUnixNano: '1795291654183000000',
      severityNumber: 13,
      severityText: 'warn',
      eventName: 'request',
      body: { stringValue: 'request' },
      traceId: '0af7651916cd43dd8448eb211c80319c',
      attributes: [
        { key: 'event', value: { stringValue: 'request' } },
        { key: 'status', value: { intValue: '200' } },
        { key: 'head_ms', value: { doubleValue: 41 } },
        { key: 'notes', value: { stringValue: '["hedged"]' } },
        {
          key: 'stages_ms',
          value: {
            kvlistValue: {
              values: [
                { key: 'edge', value: { doubleValue: 1 } },
                { key: 'ttft', value: { doubleValue: 41.5 } },
              ],
            },
          },
        },
      ],
    },
  ])
})
