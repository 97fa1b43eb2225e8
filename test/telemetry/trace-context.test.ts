import { expect, it } from 'vitest'
import { beginTrace, readTraceparent, withTrace } from '../../src/telemetry/trace-context.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'
let ids = 0
const tracing = (roll: number, sample = 0.5) => ({
  sample,
  random: () => roll,
  newId: () => `00000000-0000-4000-8000-${String(++ids).padStart(12, '0')}`,
})

it.each([
  [`00-${TRACE}-${SPAN}-01`, true],
  [`00-${TRACE}-${SPAN}-00`, false],
  [`cc-${TRACE}-${SPAN}-01-what-the-future-brings`, true],
])('%s is a valid traceparent', (header, sampled) => {
  expect(readTraceparent(header)).toEqual({ traceId: TRACE, parentId: SPAN, sampled })
})

it.each([
  null,
  '',
  `ff-${TRACE}-${SPAN}-01`,
  `00-${TRACE}-${SPAN}-01-more`,
  `00-${'0'.repeat(32)}-${SPAN}-01`,
  `00-${TRACE}-${'0'.repeat(16)}-01`,
  `00-${TRACE.toUpperCase()}-${SPAN}-01`,
  `00-${TRACE}-${SPAN}`,
])('%s is not a traceparent', (header) => {
  expect(readTraceparent(header)).toBeNull()
})

it('the client’s sampling decision is used, else a random one', () => {
  expect(beginTrace(`00-${TRACE}-${SPAN}-00`, tracing(0, 1)).sampled).toBe(false)
  expect(beginTrace(`00-${TRACE}-${SPAN}-01`, tracing(0.99, 0)).sampled).toBe(true)
  expect([beginTrace(null, tracing(0.4)).sampled, beginTrace(null, tracing(0.6)).sampled]).toEqual([true, false])
})

it('the engine gets a traceparent, and tracestate only from the same trace', () => {
  const child = beginTrace(`00-${TRACE}-${SPAN}-01`, tracing(0))
  expect(withTrace(['a', 'b', 'traceparent', 'old', 'tracestate', 's'], child)).toEqual([
    'a',
    'b',
    'tracestate',
    's',
    'traceparent',
    `00-${TRACE}-${child.engineSpanId}-01`,
  ])
  const root = beginTrace('nonsense', tracing(0))
  expect(withTrace(['traceparent', 'nonsense', 'tracestate', 's'], root)).toEqual([
    'traceparent',
    `00-${root.traceId}-${root.engineSpanId}-01`,
  ])
  expect(root.traceId).toMatch(/^[0-9a-f]{32}$/)
  expect(new Set([root.spanId, root.engineSpanId, child.spanId]).size).toBe(3)
})
