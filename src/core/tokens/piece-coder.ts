import { BpeMerger } from './bpe-merge.ts'
import type { IdBuffer } from './id-buffer.ts'
import { UnigramSearch } from './unigram.ts'
import type { Vocabulary } from './vocabulary.ts'

/** Ids of one piece of text. */
export interface PieceCoder {
  /** Call before each text. */
  begin(): void
  /** Appends the ids of `bytes[from, to)`. Throws for a piece that takes too long. */
  merge(bytes: Uint8Array, from: number, to: number, out: IdBuffer): void
  /** Steps so far. Tests check that they grow linearly. */
  readonly steps: number
}

export function createPieceCoder(vocabulary: Vocabulary): PieceCoder {
  const { characters } = vocabulary.header
  return characters?.model === 'unigram'
    ? new UnigramSearch(vocabulary, characters.unknown, characters.bytes)
    : new BpeMerger(vocabulary)
}
