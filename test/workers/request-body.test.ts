/** Reading of request bodies on Workers: complete for any pieces, with at most twice their bytes in memory. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { BodyMemory, countIn } from '../../src/body-memory.ts'
import { collectBody as collect } from '../../src/platform/workers/request-body.ts'

/** A body like a client's: bytes from outside of this isolate's heap. */
function requestOf(pieces: readonly Uint8Array[], declared: boolean): Request {
  const size = pieces.reduce((sum, { length }) => sum + length, 0)
  const { readable, writable } = declared ? new FixedLengthStream(size) : new IdentityTransformStream()
  const writer = writable.getWriter()
  void (async () => {
    for (const piece of pieces) await writer.write(piece)
    await writer.close()
  })().catch(() => undefined)
  return new Request('https://gateway.test/', {
    method: 'POST',
    body: readable,
    headers: declared ? { 'content-length': String(size) } : {},
  })
}

const bytesOf = (size: number): Uint8Array => Uint8Array.from({ length: size }, (_, i) => (i * 7919) >>> 3)
const splitInto = (bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] => {
  const pieces: Uint8Array[] = []
  for (let at = 0, i = 0; at < bytes.length; at += sizes[i % sizes.length]!, i++)
    pieces.push(bytes.slice(at, at + sizes[i % sizes.length]!))
  return pieces
}
const LIMIT = 300_000

describe('a body that a Worker collects', () => {
  it('a body that a Worker collects is whole, however long it is and however it is cut', async () => {
    const sizes = fc.oneof(fc.constantFrom(0, 1, 16_383, 16_384, 16_385, 32_768, 65_536, 65_537, LIMIT), fc.nat(LIMIT))
    await fc.assert(
      fc.asyncProperty(
        sizes,
        fc.array(fc.integer({ min: 200, max: 70_000 }), { minLength: 1, maxLength: 5 }),
        fc.boolean(),
        async (size, pieceSizes, declared) => {
          const bytes = bytesOf(size)
          expect(await collect(requestOf(splitInto(bytes, pieceSizes), declared), LIMIT)).toEqual(bytes)
        },
      ),
      { numRuns: 60 },
    )
  })

  it('a body that a Worker collects uses at most twice its bytes, which are counted', async () => {
    for (const size of [1, 20_000, 33_000, 200_000, LIMIT]) {
      const memory = new BodyMemory({ bodyBytes: LIMIT, bufferedBytes: 10 * LIMIT }, countIn(new Int32Array(1)))
      const held = memory.open()
      const bytes = await collect(requestOf(splitInto(bytesOf(size), [1_000]), false), LIMIT, held)
      expect(bytes!.buffer.byteLength).toBeLessThanOrEqual(Math.max(16_384, 2 * size))
      expect(memory.bytes).toBeGreaterThanOrEqual(size)
      held.release()
      expect(memory.bytes).toBe(0)
    }
  })

  it('a body that a Worker collects is given up beyond the limit', async () => {
    expect(await collect(requestOf(splitInto(bytesOf(LIMIT + 1), [5_000]), false), LIMIT)).toBeNull()
  })

  it('a body that a Worker collects is rejected if all bodies together are too large', async () => {
    const memory = new BodyMemory({ bodyBytes: LIMIT, bufferedBytes: LIMIT }, countIn(new Int32Array(1)))
    const other = memory.open()
    other.grow(LIMIT - 20_000)
    const held = memory.open()
    for (const declared of [false, true]) {
      await expect(
        collect(requestOf(splitInto(bytesOf(100_000), [5_000]), declared), LIMIT, held),
      ).rejects.toMatchObject({
        reason: 'buffers_full',
      })
    }
    held.release()
    other.release()
    expect(memory.bytes).toBe(0)
  })

  it('a body that a Worker collects fails if its sender disconnects', async () => {
    const { readable, writable } = new IdentityTransformStream()
    const writer = writable.getWriter()
    void writer
      .write(bytesOf(10))
      .then(() => writer.abort(new Error('gone')))
      .catch(() => undefined)
    await expect(
      collect(new Request('https://gateway.test/', { method: 'POST', body: readable }), LIMIT),
    ).rejects.toThrow()
  })
})
