import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { hasMorePieces } from '../../src/api/pieces.ts'

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)

/** By the parsed document, in sixteenths: lists, mappings and texts count 16, each entry but a list's first 1. */
function sixteenths(value: unknown): number {
  if (typeof value === 'string') return 16
  if (typeof value !== 'object' || value === null) return 0
  const inner = Array.isArray(value) ? value : Object.entries(value).flat()
  const commas = Array.isArray(value) ? inner.length - 1 : inner.length / 2 - 1
  return 16 + Math.max(0, commas) + inner.reduce((sum: number, one) => sum + sixteenths(one), 0)
}

describe('the pieces of a document', () => {
  it('are what is in it, whatever its texts hold and however it is spaced', () => {
    const documents = fc.tuple(fc.jsonValue({ stringUnit: fc.constantFrom('"', '\\', '[', '{', ',', 'a', 'é', '\n') }), fc.constantFrom('', ' ', '\n\t'))
    fc.assert(
      fc.property(documents, fc.integer({ min: 0, max: 12 }), ([value, space], limit) => {
        expect(hasMorePieces(bytesOf(JSON.stringify(value, null, space)), limit)).toBe(sixteenths(value) > 16 * limit)
      }),
    )
  })

  it.each(['"a', '["', '"\\"', ']]]]]]', '\u{1f600}'.repeat(9)])('of what is no JSON are no reason to refuse it: %s', (text) => {
    expect(hasMorePieces(bytesOf(text), 3)).toBe(false)
  })

  it('are counted no further than to the limit', () => {
    const opened = new Uint8Array(2 ** 24).fill('['.charCodeAt(0))
    let read = 0
    const watched = new Proxy(opened, {
      get(target, name) {
        if (typeof name === 'string' && /^\d+$/.test(name)) read++
        return Reflect.get(target, name, target) as unknown
      },
    })
    expect(hasMorePieces(watched, 1000)).toBe(true)
    expect(read).toBeLessThan(1010)
  })
})
