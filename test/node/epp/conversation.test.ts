import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { FULL_DUPLEX, headerMap, HEADS, ProxyCall, STREAMED_ANSWER } from '../../kit/ext-proc-client.ts'
import type { GrpcTestClient } from '../../kit/grpc-client.ts'
import { openPicker } from '../../kit/open-picker.ts'
import type { FieldList } from '../../kit/protobuf.ts'
import { DONE, token } from '../../kit/sse.ts'
import { GRPC } from '../../../src/platform/node/grpc/grpc-status.ts'

const PROCESS = '/envoy.service.ext_proc.v3.ExternalProcessor/Process'
const chat = (stream = true): string =>
  JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: 'hi' }] })
const config = (request: number, response: number): FieldList => [
  [1, request],
  [2, response],
]
const requestHead = (rest: FieldList = [[11, config(4, 4)]]): FieldList => [
  [2, [[1, headerMap({ ':method': 'POST', ':path': '/v1/chat/completions' })]]],
  ...rest,
]

/** Passes a whole request through the picker. */
async function serve(client: GrpcTestClient): Promise<string> {
  const call = new ProxyCall(client)
  await call.request({ body: chat() })
  call.responseHead(200, { 'content-type': 'text/event-stream' })
  call.responseBody(token('hello') + DONE, true)
  await call.next(({ kind, endOfStream }) => kind === 'response_body' && endOfStream)
  call.call.abort()
  await call.ended
  return call.text('response_body')
}

const BODY: FieldList = [[4, [[1, '{}']]]]
const END: FieldList = [
  [
    4,
    [
      [1, '{"model":"m"}'],
      [2, true],
    ],
  ],
]
const RESPONSE_BODY: FieldList = [[5, [[1, 'x']]]]

describe('a message that does not fit ends its call alone, with the status that says why', () => {
  const cases: readonly (readonly [string, number, readonly FieldList[]])[] = [
    ['a body before the headers', GRPC.invalidArgument, [BODY]],
    ['trailers before the headers', GRPC.invalidArgument, [[[6, []]]]],
    ['a response before the request', GRPC.invalidArgument, [RESPONSE_BODY]],
    ['headers twice', GRPC.invalidArgument, [requestHead(), requestHead()]],
    ['a body behind its end', GRPC.invalidArgument, [requestHead(), END, BODY]],
    ['trailers behind the end', GRPC.invalidArgument, [requestHead(), END, [[6, []]]]],
    ['a body of a response that has not begun', GRPC.invalidArgument, [requestHead(), BODY, RESPONSE_BODY]],
    ['no known message', GRPC.invalidArgument, [[[20, 'x']]]],
    ['observability mode', GRPC.failedPrecondition, [requestHead([[10, true]])]],
    ['no request body', GRPC.failedPrecondition, [requestHead([[11, config(0, 4)]])]],
    ['a streamed request body', GRPC.failedPrecondition, [requestHead([[11, config(1, 4)]])]],
    ['an unknown mode', GRPC.failedPrecondition, [requestHead([[11, config(4, 9)]])]],
  ]

  it.each(cases)('%s', async (_name, status, messages) => {
    await using picker = await openPicker()
    const { client, gateway } = picker
    const other = new ProxyCall(client)
    await other.request({ body: chat() })
    const call = new ProxyCall(client)
    for (const one of messages) call.send(one)
    const ended = await call.ended
    expect(ended.status).toBe(status)
    expect(ended.message).not.toBe('')
    other.responseHead(200, { 'content-type': 'text/event-stream' })
    other.responseBody(token('hello') + DONE, true)
    await other.next(({ kind, endOfStream }) => kind === 'response_body' && endOfStream)
    other.call.abort()
    expect(await serve(client)).toBe(token('hello') + DONE)
    await gateway.idle()
  })

  it('a compressed message, one that is too long, and bytes that are no message', async () => {
    await using picker = await openPicker({ config: { limits: { body_bytes: 1024, buffered_bytes: 4096 } } })
    const { client, gateway } = picker
    const statusOf = async (bytes: Uint8Array): Promise<number | null> => {
      const call = client.call(PROCESS)
      call.raw(bytes)
      return (await call.ended).status
    }
    expect(await statusOf(Buffer.from([1, 0, 0, 0, 1, 0]))).toBe(GRPC.unimplemented)
    expect(await statusOf(Buffer.from([0, 0x7f, 0xff, 0xff, 0xff]))).toBe(GRPC.resourceExhausted)
    expect(await statusOf(Buffer.from([0, 0, 0, 0, 3, 0xff, 0xff, 0xff]))).toBe(GRPC.invalidArgument)
    const cut = client.call(PROCESS)
    cut.raw(Buffer.from([0, 0, 0, 0, 9, 1]))
    cut.halfClose()
    expect((await cut.ended).status).toBe(GRPC.invalidArgument)
    expect(await serve(client)).toBe(token('hello') + DONE)
    await gateway.idle()
  })
})

it('a body beyond the limit is refused before its end', async () => {
  await using picker = await openPicker({ config: { limits: { body_bytes: 1024, buffered_bytes: 4096 } } })
  const call = new ProxyCall(picker.client)
  call.head({})
  call.body(Buffer.alloc(800, 32), false)
  call.body(Buffer.alloc(800, 32), false)
  expect((await call.next(({ status }) => status > 0)).status).toBe(413)
})

it('calls with random messages and aborts end, and hold no booking', { timeout: 60_000 }, async () => {
  await using picker = await openPicker()
  const { client, gateway } = picker
  const steps: readonly ((call: ProxyCall) => void)[] = [
    (call) => call.head({}),
    (call) => call.body(Buffer.from(chat()), true),
    (call) => call.body(Buffer.from('{'), false),
    (call) => call.responseHead(200, { 'content-type': 'text/event-stream' }),
    (call) => call.responseHead(500, { 'content-type': 'application/json' }),
    (call) => call.responseBody(token('hello'), false),
    (call) => call.responseBody(DONE, true),
    (call) => call.send([[6, []]]),
    (call) => call.send([[7, []]]),
    (call) => call.call.raw(Buffer.from([0, 0, 0, 0, 1, 255])),
  ]
  const plan = fc.tuple(
    fc.constantFrom(FULL_DUPLEX, HEADS, STREAMED_ANSWER),
    fc.array(fc.nat(steps.length - 1), { maxLength: 8 }),
    fc.boolean(),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(plan, { minLength: 1, maxLength: 6 }), async (plans) => {
      const calls = plans.map(([modes, taken, aborts]) => {
        const call = new ProxyCall(client, modes)
        // A call that begins as a request reaches more states.
        call.head({})
        call.body(Buffer.from(chat()), true)
        for (const step of taken) steps[step]!(call)
        if (aborts) call.call.abort()
        else call.call.halfClose()
        return call.ended
      })
      await Promise.all(calls)
      await gateway.idle()
    }),
    { numRuns: 60 },
  )
  expect(await serve(client)).toBe(token('hello') + DONE)
  expect(gateway.logged('endpoint_picker_failed')).toEqual([])
})
