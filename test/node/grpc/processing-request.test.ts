import * as fc from 'fast-check'
import { expect, it } from 'vitest'
import { MalformedMessage } from '../../../src/platform/node/grpc/field-reader.ts'
import {
  BODY_MODE,
  metadataOf,
  type ProcessingRequest,
  readProcessingRequest,
} from '../../../src/platform/node/grpc/processing-request.ts'
import { message } from '../../kit/protobuf.ts'
import vectors from '../../vectors/ext-proc.json' with { type: 'json' }

const vector = (name: string): Buffer =>
  Buffer.from(vectors.requests.find((request) => request.name === name)!.bytes, 'hex')

const read = (name: string): ProcessingRequest => readProcessingRequest(vector(name))

it('reads request headers that a protobuf library wrote', () => {
  const { kind, headers, endOfStream, protocolConfig, metadata, observes } = read('request_headers')
  expect({ kind, endOfStream, observes }).toEqual({ kind: 'request_headers', endOfStream: false, observes: false })
  expect(headers.slice(0, 4)).toEqual([':method', 'POST', ':path', '/v1/chat/completions'])
  expect(Buffer.from(headers[5]!, 'latin1').toString()).toBe('wért')
  expect(protocolConfig).toEqual({ requestBodyMode: BODY_MODE.fullDuplex, responseBodyMode: BODY_MODE.fullDuplex })
  expect(metadataOf(metadata, 'envoy.lb.subset_hint')).toEqual({
    'x-gateway-destination-endpoint-subset': ['10.0.0.1:8000', '10.0.0.2'],
    n: 1.5,
    t: true,
    z: null,
    o: { a: 'b' },
  })
  expect(metadataOf(metadata, 'envoy.lb')).toBeNull()
})

it('reads values that are no raw values, and the end of a request without a body', () => {
  const { headers, endOfStream, protocolConfig } = read('request_headers with values and an end')
  expect(headers).toEqual([':method', 'GET', 'a-name', 'value'])
  expect(endOfStream).toBe(true)
  expect(protocolConfig).toEqual({ requestBodyMode: BODY_MODE.buffered, responseBodyMode: BODY_MODE.none })
})

it('reads bodies, trailers and the engine that served', () => {
  expect(read('request_body').body).toEqual(Buffer.from(Array.from({ length: 512 }, (_, at) => at % 256)))
  expect(read('request_body end')).toMatchObject({ kind: 'request_body', endOfStream: true })
  expect(read('request_trailers')).toMatchObject({ kind: 'request_trailers', headers: ['a', 'b'] })
  expect(read('response_trailers').kind).toBe('response_trailers')
  expect(read('response_body observed')).toMatchObject({ kind: 'response_body', observes: true })
  expect(metadataOf(read('response_headers').metadata, 'envoy.lb')).toEqual({
    'x-gateway-destination-endpoint-served': '10.0.0.2:8000',
  })
})

it('unknown fields of every wire type are skipped', () => {
  const unknown = Buffer.from([0xf8, 0x01, 0x05, 0xf9, 0x01, 1, 2, 3, 4, 5, 6, 7, 8, 0xfd, 0x01, 1, 2, 3, 4])
  const known = vector('request_body')
  const { body } = readProcessingRequest(Buffer.concat([unknown, message([[77, 'text']]), known, unknown]))
  expect(body.length).toBe(512)
})

it('a message without a request is rejected, and metadata with too many levels', () => {
  expect(() => readProcessingRequest(message([[8, []]]))).toThrow(MalformedMessage)
  let value: Buffer = message([[3, 'deep']])
  for (let level = 0; level < 20; level++)
    value = message([
      [
        5,
        [
          [
            1,
            [
              [1, 'a'],
              [2, value],
            ],
          ],
        ],
      ],
    ])
  const struct = message([
    [
      1,
      [
        [1, 'a'],
        [2, value],
      ],
    ],
  ])
  const metadata = message([
    [
      1,
      [
        [1, 'envoy.lb'],
        [2, struct],
      ],
    ],
  ])
  expect(() => metadataOf({ bytes: metadata, from: 0, to: metadata.length }, 'envoy.lb')).toThrow('levels')
})

it('a message keeps the headers and body of any client', () => {
  const header = fc.tuple(fc.stringMatching(/^[a-z-]{1,20}$/), fc.string())
  fc.assert(
    fc.property(fc.array(header), fc.uint8Array({ maxLength: 500 }), (headers, body) => {
      const map = headers.map(
        ([name, value]) =>
          [
            1,
            [
              [1, name],
              [3, value],
            ],
          ] as const,
      )
      const sent = readProcessingRequest(message([[2, [[1, map]]]]))
      expect(sent.headers.map((text) => Buffer.from(text, 'latin1').toString())).toEqual(
        headers.flatMap(([name, value]) => [name, Buffer.from(value).toString()]),
      )
      expect(readProcessingRequest(message([[4, [[1, body]]]])).body).toEqual(Buffer.from(body))
    }),
  )
})

it('reads any bytes without another error than MalformedMessage', () => {
  const changed = fc
    .tuple(
      fc.constantFrom(...vectors.requests.map(({ bytes }) => bytes)),
      fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { maxLength: 6 }),
      fc.nat(400),
    )
    .map(([hex, changes, length]) => {
      const bytes = Buffer.from(hex, 'hex')
      for (const [at, value] of changes) bytes[at % bytes.length] = value
      return bytes.subarray(0, length)
    })
  const any = fc.oneof(
    changed,
    fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  )
  fc.assert(
    fc.property(any, (bytes) => {
      try {
        const { metadata } = readProcessingRequest(bytes)
        metadataOf(metadata, 'envoy.lb.subset_hint')
      } catch (error) {
        expect(error).toBeInstanceOf(MalformedMessage)
      }
    }),
    { numRuns: 2_000 },
  )
})
