import { describe, expect, it } from 'vitest'
import { blake3 } from '../../../src/core/lmcache/blake3.ts'
import { chunkHashes, hashHex } from '../../../src/core/lmcache/chunk-hashes.ts'
import vectors from '../../vectors/blake3.json' with { type: 'json' }
import chunks from '../../vectors/lmcache-chunks.json' with { type: 'json' }

/** The specification's input: bytes 0, 1, … 250, 0, 1, … */
function inputOf(length: number): Uint32Array {
  const bytes = new Uint8Array(Math.ceil(length / 4) * 4)
  for (let i = 0; i < length; i += 1) bytes[i] = i % 251
  return new Uint32Array(bytes.buffer)
}

describe('BLAKE3', () => {
  it.each(vectors.cases)('BLAKE3 gives the published hash of $input_len bytes', ({ input_len: length, hash }) => {
    const out = new Uint32Array(8)
    blake3(inputOf(length), length, out)
    expect(hashHex(out, 0)).toBe(hash)
  })
})

describe('chunk hashes', () => {
  it.each(chunks.cases)(
    'chunk hashes are those of LMCache for $tokens tokens in chunks of $chunk_tokens',
    ({ tokens, step, chunk_tokens: chunkTokens, hashes }) => {
      const ids = Array.from({ length: tokens }, (_, at) => (at * step) % 151_936)
      const made = chunkHashes(ids, chunkTokens)
      expect(Array.from({ length: made.length / 8 }, (_, at) => hashHex(made, at))).toEqual(hashes)
    },
  )
})
