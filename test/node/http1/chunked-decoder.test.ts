import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ChunkedDecoder } from '../../../src/platform/node/http1/chunked-decoder.ts'

/** Feeds the text in reads of the given sizes. Returns the payload and the rest of the read that contained the end. */
function decode(
  text: string,
  sizes: readonly number[] = [text.length],
): { readonly payload: string; readonly rest: string; readonly state: string } {
  const decoder = new ChunkedDecoder()
  let payload = ''
  for (let at = 0, i = 0; at < text.length; i++) {
    const read = Buffer.from(text.slice(at, at + sizes[i % sizes.length]!), 'latin1')
    const length = decoder.take(read)
    payload += read.toString('latin1', 0, length)
    at += decoder.taken
    if (decoder.done || decoder.malformed)
      return { payload, rest: text.slice(at), state: decoder.done ? 'done' : 'malformed' }
  }
  return { payload, rest: '', state: 'open' }
}

const chunkOf = (text: string, extension = ''): string => `${text.length.toString(16)}${extension}\r\n${text}\r\n`

describe('a chunked decoder', () => {
  it('a chunked decoder finds payload and end, however the body is cut into chunks and reads', () => {
    const chunk = fc.tuple(
      fc.string({ unit: fc.constantFrom('a', 'ÿ', '\r', '\n', '0', ';'), minLength: 1, maxLength: 80 }),
      fc.constantFrom('', ';a', ';a="b; c"', ';\t'),
    )
    const trailers = fc.constantFrom('', 'x-a: 1\r\n', 'x-a: 1\r\nx-b:\r\n')
    fc.assert(
      fc.property(
        fc.array(chunk, { maxLength: 20 }),
        trailers,
        fc.constantFrom('', 'POST / HTTP/1.1\r\n'),
        fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 5 }),
        (chunks, trailer, behind, sizes) => {
          const text = `${chunks.map(([data, extension]) => chunkOf(data, extension)).join('')}0\r\n${trailer}\r\n`
          const { payload, state } = decode(text + behind, sizes)
          expect({ payload, state }).toEqual({ payload: chunks.map(([data]) => data).join(''), state: 'done' })
          expect(decode(text + behind).rest).toBe(behind)
        },
      ),
    )
  })

  it('a chunked decoder is not done before the last byte', () => {
    const text = `${chunkOf('abc')}0\r\nx: 1\r\n\r\n`
    for (let size = 0; size < text.length; size++) expect(decode(text.slice(0, size), [size || 1]).state).toBe('open')
  })

  it.each([
    ['no size', '\r\nabc\r\n'],
    ['a sign', '+3\r\nabc\r\n'],
    ['a prefix', '0x3\r\nabc\r\n'],
    ['a blank before the size', ' 3\r\nabc\r\n'],
    ['a blank behind the size', '3 \r\nabc\r\n'],
    ['a size without an end', 'f'.repeat(17)],
    ['a size beyond all memory', '1000000000001\r\n'],
    ['a bare line feed behind the size', '3\nabc\r\n'],
    ['a bare carriage return behind the size', '3\rabc\r\n'],
    ['a bare line feed behind the data', '3\r\nabc\n'],
    ['a carriage return alone behind the data', '3\r\nabc\rx'],
    ['more data than it says', '3\r\nabcd\r\n'],
    ['less data than it says', '3\r\nab\r\n0\r\n\r\n'],
    ['a bare line feed in an extension', '3;a\nabc\r\n'],
    ['a NUL in an extension', '3;a\0\r\nabc\r\n'],
    ['an extension without end', `3;${'a'.repeat(17_000)}`],
    ['extensions without end', `3;${'a'.repeat(5_000)}\r\nabc\r\n`.repeat(4)],
    ['trailers without end', `0\r\nx: ${'a'.repeat(17_000)}`],
    ['a trailer without a name', '0\r\n: a\r\n\r\n'],
    ['a bare line feed in a trailer', '0\r\nx: a\ny: b\r\n\r\n'],
    ['a trailer that is none', '0\r\nGET / HTTP/1.1\r\n\r\n'],
  ])('a chunked decoder refuses %s', (_, text) => {
    expect(decode(text).state).toBe('malformed')
    expect(decode(text, [1]).state).toBe('malformed')
  })
})
