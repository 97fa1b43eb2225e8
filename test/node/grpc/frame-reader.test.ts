import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { FrameReader } from '../../../src/platform/node/grpc/frame-reader.ts'
import { GRPC, GrpcError } from '../../../src/platform/node/grpc/grpc-status.ts'
import { grpcFrame } from '../../kit/grpc-client.ts'

it('the messages are the same wherever the bytes are cut', () => {
  const messages = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 8 })
  fc.assert(
    fc.property(messages, fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }), (sent, sizes) => {
      const received: Buffer[] = []
      const reader = new FrameReader(100, (message) => void received.push(Buffer.from(message)))
      const bytes = Buffer.concat(sent.map((message) => grpcFrame(message)))
      for (let at = 0, cut = 0; at < bytes.length; cut++) {
        const size = sizes[cut % sizes.length]!
        reader.take(bytes.subarray(at, at + size))
        at += size
      }
      expect(received).toEqual(sent.map((message) => Buffer.from(message)))
      expect(reader.isBetween).toBe(true)
    }),
  )
})

const statusOf = (bytes: Buffer): number => {
  try {
    new FrameReader(100, () => undefined).take(bytes)
  } catch (error) {
    if (error instanceof GrpcError) return error.status
    throw error
  }
  return GRPC.ok
}

it('a long message is refused by its prefix alone, and a compressed one as well', () => {
  expect(statusOf(Buffer.from([0, 0, 0, 0, 100]))).toBe(GRPC.ok)
  expect(statusOf(Buffer.from([0, 0, 0, 0, 101]))).toBe(GRPC.resourceExhausted)
  expect(statusOf(Buffer.from([0, 255, 255, 255, 255]))).toBe(GRPC.resourceExhausted)
  expect(statusOf(Buffer.from([1, 0, 0, 0, 1, 0]))).toBe(GRPC.unimplemented)
})
