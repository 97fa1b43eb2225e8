/** Memory of request bodies that come through a proxy. */
import { expect, it, onTestFinished, vi } from 'vitest'
import { HeaderMap } from '../../../src/platform/node/epp/header-map.ts'
import { InboundRequest } from '../../../src/platform/node/epp/inbound-request.ts'
import { FrameReader } from '../../../src/platform/node/grpc/frame-reader.ts'
import { GrpcCall } from '../../../src/platform/node/grpc/grpc-call.ts'
import { memoryOf } from '../../../src/platform/node/grpc/processing-request.ts'
import { FULL_DUPLEX, ProxyCall } from '../../kit/ext-proc-client.ts'
import { grpcFrame } from '../../kit/grpc-client.ts'
import { openPicker } from '../../kit/open-picker.ts'
import { turns, until } from '../../wait.ts'

const PIECE_BYTES = 100_000

const isFreed = ({ buffer }: Buffer): boolean => buffer.byteLength === 0

const inbound = (): InboundRequest => new InboundRequest(new HeaderMap([]), () => undefined)

/** Bytes that are alone in their memory. */
const alone = (): Buffer => Buffer.from(new ArrayBuffer(PIECE_BYTES))

/** Sizes of the memories that are freed from now on. */
function freedSizes(): readonly number[] {
  const sizes: number[] = []
  const transfer = ArrayBuffer.prototype.transfer
  const spy = vi.spyOn(ArrayBuffer.prototype, 'transfer').mockImplementation(function (this: ArrayBuffer, size) {
    sizes.push(this.byteLength)
    return transfer.call(this, size)
  })
  onTestFinished(() => spy.mockRestore())
  return sizes
}

/** The picker's side of the next call, once it has sent something. */
function serverCall(): () => GrpcCall | undefined {
  const send = vi.spyOn(GrpcCall.prototype, 'send')
  onTestFinished(() => send.mockRestore())
  return () => send.mock.contexts[0] as GrpcCall | undefined
}

const longChat = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'word '.repeat(80_000) }] })

it('a body of one piece frees its memory when it is given back', async () => {
  const request = inbound()
  const piece = alone()
  request.take(piece, piece)
  request.end()
  expect(await request.collect(Infinity)).toBe(piece)
  expect(isFreed(piece)).toBe(false)
  request.giveBack()
  expect(isFreed(piece)).toBe(true)
})

it('pieces free their memory when they are joined, and a piece that shares its memory does not', async () => {
  const request = inbound()
  const [first, last, shared] = [alone(), alone(), alone()]
  request.take(first, first)
  request.take(shared.subarray(0, 10), null)
  request.take(last, last)
  request.end()
  const body = (await request.collect(Infinity))!
  expect(body.length).toBe(2 * PIECE_BYTES + 10)
  expect([first, last, shared].map(isFreed)).toEqual([true, true, false])
  request.giveBack()
  expect(body.buffer.byteLength).toBe(0)
})

it('a message is alone in its memory if it was joined, and not if other bytes came with it', () => {
  const memories: (Buffer | null)[] = []
  const reader = new FrameReader(Infinity, (message) => void memories.push(memoryOf(message)))
  const frame = grpcFrame(alone())
  reader.take(frame.subarray(0, 50_000))
  reader.take(frame.subarray(50_000))
  reader.take(Buffer.concat([frame, frame]))
  expect(memories.map((memory) => memory?.length ?? null)).toEqual([frame.length, null, null])
})

it('the memory of a body is freed when the response begins', async () => {
  await using picker = await openPicker()
  const sizes = freedSizes()
  const server = serverCall()
  const call = new ProxyCall(picker.client, FULL_DUPLEX)
  await call.request({ body: longChat })
  await call.next(({ kind, endOfStream }) => kind === 'request_body' && endOfStream)
  await until(() => server()?.isWritten)
  expect(sizes).not.toContain(longChat.length)
  call.responseHead(200, { 'content-type': 'application/json' })
  call.responseBody('{}', true)
  await call.next(({ kind }) => kind === 'response_headers')
  expect(sizes).toContain(longChat.length)
  expect(call.text('request_body')).toBe(longChat)
  call.call.abort()
})

it('the memory of a body stays if the proxy has not taken all of it', async () => {
  await using picker = await openPicker()
  const sizes = freedSizes()
  const isWritten = vi.spyOn(GrpcCall.prototype, 'isWritten', 'get').mockReturnValue(false)
  onTestFinished(() => isWritten.mockRestore())
  const call = new ProxyCall(picker.client, FULL_DUPLEX)
  await call.request({ body: longChat })
  call.responseHead(200, { 'content-type': 'application/json' })
  call.responseBody('{}', true)
  await call.next(({ kind }) => kind === 'response_headers')
  expect(isWritten).toHaveBeenCalled()
  expect(sizes).not.toContain(longChat.length)
  call.call.abort()
})

it('a body is written once the proxy has taken all of it', async () => {
  await using picker = await openPicker()
  const server = serverCall()
  const call = new ProxyCall(picker.client, FULL_DUPLEX)
  call.call.stream.pause()
  const placed = call.request({ body: longChat })
  // The window of a stream that is not read is shorter than the body.
  await until(() => server()?.isWritten === false)
  await turns()
  expect(server()!.isWritten).toBe(false)
  call.call.stream.resume()
  await placed
  await until(() => server()!.isWritten)
  await until(() => call.text('request_body') === longChat)
  call.call.abort()
})
