import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { RequestRecord } from '../../src/core/reports/request-record.ts'
import { traceExportBody } from '../../src/telemetry/otlp-spans.ts'
import type { Trace } from '../../src/telemetry/trace-context.ts'
import { record } from '../contracts/ttft.ts'

const trace: Trace = {
  traceId: '0af7651916cd43dd8448eb211c80319c',
  parentId: null,
  spanId: 'b7ad6b7169203331',
  engineSpanId: '00f067aa0ba902b7',
  sampled: true,
}

interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly status?: { readonly code: number }
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[]
}

function spansOf(changes: Partial<RequestRecord> = {}, of: Trace = trace): readonly Span[] {
  const body = traceExportBody([{ trace: of, record: record(changes) }], { service: 's', instance: 'i' }) as {
    resourceSpans: { scopeSpans: { spans: Span[] }[] }[]
  }
  return body.resourceSpans[0]!.scopeSpans[0]!.spans
}

const attribute = (span: Span | undefined, name: string) => span?.attributes.find(({ key }) => key === name)?.value

it('a span has the attributes that the GenAI conventions require', () => {
  const [request] = spansOf()
  expect(request).toMatchObject({ name: 'chat qwen', kind: 2 })
  expect(attribute(request, 'gen_ai.operation.name')).toEqual({ stringValue: 'chat' })
  expect(attribute(request, 'gen_ai.provider.name')).toEqual({ stringValue: 'firstlight' })
  expect(attribute(request, 'gen_ai.usage.input_tokens')).toEqual({ intValue: '100' })
  expect(attribute(request, 'gen_ai.usage.cache_read.input_tokens')).toEqual({ intValue: '64' })
})

it.each([
  ['/v1/completions', 'text_completion'],
  ['/v1/messages', 'chat'],
  ['/v1/responses', 'chat'],
  ['/v1/embeddings', 'embeddings'],
])('%s is the operation %s', (path, operation) => {
  expect(attribute(spansOf({ path })[0], 'gen_ai.operation.name')).toEqual({ stringValue: operation })
})

it('each attribute has one type, whatever its value', () => {
  const times = fc.oneof(fc.nat(5_000), fc.double({ min: 0, max: 5_000, noNaN: true }))
  const types = new Map<string, string>()
  fc.assert(
    fc.property(times, times, times, (edge, ttft, predictedTtftMs) => {
      for (const { attributes } of spansOf({ stages: { edge, ttft }, predictedTtftMs })) {
        for (const { key, value } of attributes) {
          const [type] = Object.keys(value)
          expect([key, type]).toEqual([key, types.get(key) ?? type])
          types.set(key, type!)
        }
      }
    }),
  )
  expect(types.get('gen_ai.response.time_to_first_chunk')).toBe('doubleValue')
})

it.each([
  ['an answer', { status: 200, result: 'complete' }, undefined, undefined],
  ['a stream that broke behind its 200', { status: 200, result: 'engine_failed' }, 2, 'engine_failed'],
  ['a 503', { status: 503, result: 'refused' }, 2, 'refused'],
  [
    'a client’s mistake, which is no error of a server',
    { status: 400, result: 'engine_refused' },
    undefined,
    'engine_refused',
  ],
  ['a client that left', { status: 200, result: 'client_gone' }, undefined, 'client_gone'],
] as const)('%s is told as what it is', (_, changes, code, type) => {
  const [request, choice, engine] = spansOf(changes)
  expect([request?.status?.code, choice?.status?.code, engine?.status?.code]).toEqual([code, undefined, code])
  expect(attribute(request, 'error.type')).toEqual(type === undefined ? undefined : { stringValue: type })
})

it('a request without an engine has one span', () => {
  expect(
    spansOf({ engine: null, cluster: null, placement: null, policy: null, status: 503, result: 'refused' }),
  ).toHaveLength(1)
})

it('every span is inside its parent, with nanoseconds beyond the precision of a double', () => {
  const ms = fc.double({ min: 0, max: 100, noNaN: true })
  fc.assert(
    fc.property(ms, ms, ms, ms, (edge, tokens, admit, rest) => {
      const spans = spansOf(
        { stages: { edge, tokens, admit }, durationMs: edge + tokens + admit + rest },
        { ...trace, parentId: '1111111111111111' },
      )
      const [request, ...children] = spans
      expect(request?.parentSpanId).toBe('1111111111111111')
      expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(3)
      for (const child of children) {
        expect(child).toMatchObject({ traceId: trace.traceId, parentSpanId: trace.spanId })
        expect(BigInt(child.startTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(request!.startTimeUnixNano))
        expect(BigInt(child.endTimeUnixNano)).toBeGreaterThanOrEqual(BigInt(child.startTimeUnixNano))
        expect(BigInt(child.endTimeUnixNano)).toBeLessThanOrEqual(BigInt(request!.endTimeUnixNano))
      }
    }),
    // Sums of the same times in another order differ by rounding.
    { examples: [[0.0067138671875, 0, 60.64465332031251, 0]] },
  )
})
