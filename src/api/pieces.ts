/** Documents in so many pieces that to parse them would hold up everybody else for seconds. */
import { stringEnd } from './members.ts'

const QUOTE = 0x22
/** A list, a mapping or a text takes up to sixteen times as long as a number. */
const PIECE = 16
/** What a byte that is in no text begins: a list or mapping, or (behind a comma) the next entry, which may be a number. */
const WEIGHTS = new Uint8Array(256)
WEIGHTS[0x5b] = WEIGHTS[0x7b] = PIECE
WEIGHTS[0x2c] = 1

/** Has the JSON document more lists, mappings and texts, or sixteen times as many numbers, than `limit`? Reads no text. */
export function hasMorePieces(bytes: Uint8Array, limit: number): boolean {
  // Each takes a byte at least: nearly every document is done here.
  if (bytes.length <= limit) return false
  let left = limit * PIECE
  for (let at = 0; at >= 0 && at < bytes.length && left >= 0; ) {
    const byte = bytes[at]!
    if (byte === QUOTE) {
      left -= PIECE
      // One without an end is no JSON: its parser says so.
      at = stringEnd(bytes, at)
    } else {
      left -= WEIGHTS[byte]!
      at++
    }
  }
  return left < 0
}
