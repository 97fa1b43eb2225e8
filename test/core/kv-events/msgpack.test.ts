import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Msgpack, MsgpackError, readMsgpack } from '../../../src/core/kv-events/msgpack.ts'
import { readEventBatch } from '../../../src/core/kv-events/event-batch.ts'
import { batchBytes } from '../../../packages/simulator/src/kv-event-bytes.ts'
import { pack, type Packable } from '../../../packages/simulator/src/message-pack.ts'
import { cleared, removed, span, stored } from './events.ts'

const values: fc.Arbitrary<Packable> = fc.letrec<{ value: Packable }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constant(null),
    fc.boolean(),
    fc.oneof(
      fc.nat({ max: 300 }),
      fc.nat({ max: 70_000 }),
      fc.integer({ min: -2_147_483_648, max: 2_147_483_647 }),
      fc.maxSafeNat(),
    ),
    fc.string({ unit: 'grapheme', maxLength: 50 }),
    fc.uint8Array({ maxLength: 300 }),
    fc.double({ noNaN: true }).map((float) => ({ float })),
    fc.array(tie('value'), { maxLength: 20 }),
    fc
      .uniqueArray(fc.tuple(fc.string({ maxLength: 4 }), tie('value')), { maxLength: 20, selector: ([key]) => key })
      .map((map) => ({ map })),
  ),
})).value

function expected(value: Packable): Msgpack {
  if (value === null || typeof value !== 'object' || value instanceof Uint8Array) return value
  if (Array.isArray(value)) return (value as readonly Packable[]).map(expected)
  if ('float' in value) return value.float
  if ('map' in value)
    return new Map(
      (value as { readonly map: readonly (readonly [string, Packable])[] }).map.map(([key, inner]) => [
        key,
        expected(inner),
      ]),
    )
  return value as Msgpack
}

describe('reading MessagePack', () => {
  it('reading MessagePack gives back whatever was packed', () => {
    fc.assert(
      fc.property(values, (value) => {
        expect(readMsgpack(pack(value))).toEqual(expected(value))
      }),
      { numRuns: 500 },
    )
  })

  it('reading MessagePack keeps all 64 bits of a hash', () => {
    expect(readMsgpack(Uint8Array.of(0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe))).toEqual({
      hi: 0xffff_ffff,
      lo: 0xffff_fffe,
    })
    expect(readMsgpack(Uint8Array.of(0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe))).toBe(-2)
    expect(readMsgpack(Uint8Array.of(0xcf, 0, 0x1f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff))).toBe(Number.MAX_SAFE_INTEGER)
  })

  it('reading MessagePack refuses every cut of a batch, and never throws anything but its own error', () => {
    const prompt = { prompt: span(100, 64), blockTokens: 16, salt: 'ä' }
    const bytes = batchBytes(1, [cleared, stored(prompt), removed(prompt, 1)], 'maps')
    for (let end = 0; end < bytes.length; end++)
      expect(() => readEventBatch(bytes.subarray(0, end))).toThrow(MsgpackError)
  })

  it('reading MessagePack survives any bytes: a value, or its own error', () => {
    const outcome = (read: (bytes: Uint8Array) => unknown) => (bytes: Uint8Array) => {
      try {
        read(bytes)
      } catch (error) {
        expect(error).toBeInstanceOf(MsgpackError)
      }
    }
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), outcome(readMsgpack)), { numRuns: 5000 })
    const good = batchBytes(1, [stored({ prompt: span(0, 32), blockTokens: 16 })], 'arrays')
    fc.assert(
      fc.property(fc.nat({ max: good.length - 1 }), fc.nat({ max: 255 }), (at, byte) => {
        const bytes = good.slice()
        bytes[at] = byte
        outcome(readEventBatch)(bytes)
      }),
      { numRuns: 3000 },
    )
  })

  it('reading MessagePack does not allocate for lengths that the input does not have', () => {
    expect(() => readMsgpack(Uint8Array.of(0xdd, 0xff, 0xff, 0xff, 0xff))).toThrow(/announced/)
    expect(() => readMsgpack(Uint8Array.of(0xdf, 0x80, 0, 0, 0))).toThrow(/announced/)
    expect(() => readMsgpack(new Uint8Array(100).fill(0x91))).toThrow(/nested/)
  })
})
